#!/bin/sh
# The first process of the guest: prepares it, does the steps, powers off. Each step's output goes
# to the console between two marks; run.py, which reads the console, does all the judging.
export PATH=/bin HOME=/root LC_ALL=C
MOUNT=/store DIR=/disk/state
# Sizes, set by run.py.
. /sizes

main() {
  prepare
  step kernel uname -r
  step up up
  step status intarsia status --json "$MOUNT"
  step pjdfstest pjdfstest --configuration-file /tests/pjdfstest.toml \
    --secondary-fs /disk/other --path "$MOUNT"
  for settings in /tests/fsx/*.toml; do
    name=$(basename "$settings" .toml)
    step "fsx-$name" fsx -N "$FSX_OPERATIONS" -S 20 -f "$settings" -P /tmp "$MOUNT/fsx-$name"
  done
  step write write_files
  step kill kill_node
  step again up
  step survivors sh -c "cd $MOUNT && sha256sum -c -s /disk/sums && echo intact"
  step check intarsia check --json "$MOUNT"
  step down intarsia down "$MOUNT"
  step offline intarsia check --json "$DIR"
  rounds
  step messages sh -c 'dmesg | grep -E "BUG|WARNING|Oops|hung task|rcu.*stall" || true'
  echo "@@ finished"
  poweroff -f
}

prepare() {
  mount -t proc proc /proc
  mount -t sysfs sysfs /sys
  mount -t devtmpfs devtmpfs /dev
  mkdir -p /dev/shm
  mount -t tmpfs tmpfs /dev/shm
  mount -t tmpfs tmpfs /tmp
  mount -t tmpfs tmpfs /run
  for module in $(cat /modules/order); do insmod "/modules/$module"; done
  ip link set lo up
  mount -t ext4 /dev/vda /disk
  mkdir -p /disk/other "$MOUNT" /floor
}

# step NAME COMMAND...: runs a command between its marks.
step() {
  name=$1
  shift
  echo "@@ begin $name"
  "$@" 2>&1
  echo "@@ end $name $?"
}

up() {
  umount -l "$MOUNT" 2>/dev/null
  intarsia up "$MOUNT" --dir "$DIR" --wait 60s
}

# Small files, which lie beside their inodes, and larger ones, which lie in the tier.
write_files() {
  cd "$MOUNT" && mkdir many && cd many || return 1
  for i in $(seq "$FILES"); do
    head -c $((i * 37 % 9000)) /dev/urandom >"small-$i" || return 1
  done
  for i in 1 2 3 4; do head -c 5000000 /dev/urandom >"large-$i" || return 1; done
  mv small-1 renamed && rm small-2 && ln small-3 linked || return 1
  cd "$MOUNT" && find many -type f -exec sha256sum {} + >/disk/sums && wc -l </disk/sums
}

kill_node() {
  pid=$(intarsia status --json "$MOUNT" | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')
  cd / && kill -9 "$pid" || return 1
  # Its threads die one by one; the mount is dead with the last of them. Each look is for another
  # name, because the kernel remembers which names were not there.
  for i in $(seq 1000); do
    stat "$MOUNT/none-$i" 2>&1 | grep -qiE "not connected|aborted" && dead=yes && break
    usleep 10000
  done
  [ "$dead" = yes ] || { echo "the mount lives on"; return 1; }
  sync
}

# The systems take turns within each round, so that a slow moment of the host meets all of them.
# Client and server share a processor: waking another one is what an emulator does worst.
rounds() {
  taskset -p 1 $$ >/dev/null
  for round in $(seq "$ROUNDS"); do
    mkdir -p /disk/native && measure native /disk/native
    floor --writeback --threads 2 /floor & floor=$!
    await_mount /floor && measure floor /floor
    umount /floor
    kill "$floor" 2>/dev/null
    wait "$floor"
    rm -rf "$DIR-$round"
    intarsia up "$MOUNT" --dir "$DIR-$round" --wait 60s >/dev/null 2>&1 && measure ours "$MOUNT"
    intarsia down --purge "$MOUNT" >/dev/null 2>&1
  done
}

# measure SYSTEM DIRECTORY: one round in one file system.
measure() {
  step "small-$1-$round" smallfiles "$2" --files "$SMALL_FILES"
  if [ -x /bin/fio ]; then
    for pattern in write read randwrite randread; do fio_step "$1" "$2" "$pattern"; done
    rm -f "$2"/data.*
  fi
}

# 4 KiB pieces show what a request costs; they stay in the page cache where there is one.
fio_step() {
  step "fio-$1-$round-$3" fio --name=kernel --directory="$2" --filename_format=data.\$jobnum \
    --rw="$3" --bs=4k --size="${FIO_MIB}m" --ioengine=psync --invalidate=0 --fallocate=none \
    --thread --norandommap --output-format=json
}

await_mount() {
  for _ in $(seq 500); do
    grep -q " $1 fuse" /proc/mounts && return 0
    usleep 20000
  done
  echo "@@ no mount at $1"
  return 1
}

main
