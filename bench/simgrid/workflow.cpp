// A workflow on hosts with disks and links in SimGrid, as WRENCH's default storage services have it: a disk has a rate for
// reads and one for writes, which operations share; what lies on another host crosses the links; tasks run in slots, first
// come, first served, where most of their input lies. No metadata, no memory that keeps files, no chunks.
//
// Standard input, one line each:   hosts COUNT SLOTS READ_BYTES_PER_S WRITE_BYTES_PER_S LINK_BYTES_PER_S LATENCY_S
//                                  layout local|central|spread N    files go to the host that writes, to the first, or each over N
//                                  file BYTES                       a file that is there, dealt over the hosts in turn, or made
//                                  task OVERHEAD_S OPERATION...     r:FILE:BYTES, w:FILE:BYTES, c:SECONDS
// Files and tasks are numbered from 0 in the order of their lines. Standard output: the makespan in seconds.

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <simgrid/s4u.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

struct Operation {
  char kind;
  size_t file;
  double amount;
};

struct File {
  std::vector<int> hosts;
  int writer = -1;
  bool is_made = false;
};

struct Task {
  double overhead = 0;
  std::vector<Operation> operations;
  bool is_begun = false, is_ended = false;
};

static std::vector<File> files;
static std::vector<Task> tasks;
static std::vector<sg4::Host *> hosts;
static std::vector<int> idle;
static double makespan = 0;
static std::string layout = "local";
static size_t parts = 1;

static void deal();

// The hosts over which a file is dealt evenly.
static std::vector<int> hosts_of(size_t file, int writer) {
  if (layout == "local") return {writer};
  if (layout == "central") return {0};
  std::vector<int> ring;
  for (size_t part = 0; part < std::min(parts, hosts.size()); part++) ring.push_back(static_cast<int>((file + part) % hosts.size()));
  return ring;
}

// Moves the parts of a file between their hosts and another one, and reads or writes their disks.
static void move(const std::vector<int> &ring, int host, double amount, bool is_write) {
  double each = amount / static_cast<double>(ring.size());
  auto disks = [&] {
    std::vector<sg4::IoPtr> ios;
    for (int at : ring)
      ios.push_back(is_write ? hosts[at]->get_disks().front()->write_async(each) : hosts[at]->get_disks().front()->read_async(each));
    for (auto &io : ios) io->wait();
  };
  if (!is_write) disks();
  std::vector<sg4::CommPtr> comms;
  for (int at : ring)
    if (at != host) comms.push_back(is_write ? sg4::Comm::sendto_async(hosts[host], hosts[at], each) : sg4::Comm::sendto_async(hosts[at], hosts[host], each));
  for (auto &comm : comms) comm->wait();
  if (is_write) disks();
}

static void perform(size_t number, int host) {
  Task &task = tasks[number];
  sg4::this_actor::sleep_for(task.overhead);
  for (const Operation &operation : task.operations) {
    if (operation.kind == 'c') {
      sg4::this_actor::sleep_for(operation.amount);
    } else {
      File &file = files[operation.file];
      if (file.hosts.empty()) file.hosts = hosts_of(operation.file, host);
      if (operation.amount > 0) move(file.hosts, host, operation.amount, operation.kind == 'w');
    }
  }
  task.is_ended = true;
  for (File &file : files)
    if (file.writer == static_cast<int>(number)) file.is_made = true;
  idle[host]++;
  makespan = sg4::Engine::get_clock();
  deal();
}

static bool is_ready(size_t number) {
  for (const Operation &operation : tasks[number].operations)
    if (operation.kind == 'r' && !files[operation.file].is_made && files[operation.file].writer != static_cast<int>(number))
      return false;
  return true;
}

// The idle host that has most of what a task reads; -1 if none is idle.
static int host_for(const Task &task) {
  std::vector<double> held(hosts.size(), 0);
  for (const Operation &operation : task.operations)
    if (operation.kind == 'r')
      for (int at : files[operation.file].hosts) held[at] += operation.amount / static_cast<double>(files[operation.file].hosts.size());
  int best = -1;
  for (size_t host = 0; host < hosts.size(); host++)
    if (idle[host] > 0 && (best < 0 || held[host] > held[best])) best = static_cast<int>(host);
  return best;
}

static void deal() {
  for (size_t number = 0; number < tasks.size(); number++) {
    if (tasks[number].is_begun || !is_ready(number)) continue;
    int host = host_for(tasks[number]);
    if (host < 0) return;
    tasks[number].is_begun = true;
    idle[host]--;
    sg4::Actor::create("task", hosts[host], perform, number, host);
  }
}

int main(int argc, char **argv) {
  sg4::Engine engine(&argc, argv);
  sg4::NetZone *zone = sg4::create_full_zone("network");
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "hosts") {
      size_t count = 0;
      int slots = 0;
      double read = 0, write = 0, link = 0, latency = 0;
      words >> count >> slots >> read >> write >> link >> latency;
      std::vector<sg4::Link *> out, in;
      for (size_t host = 0; host < count; host++) {
        std::string name = std::to_string(host);
        hosts.push_back(zone->create_host("host" + name, 1e9));
        hosts.back()->create_disk("disk" + name, read, write)->seal();
        hosts.back()->seal();
        out.push_back(zone->create_link("out" + name, link)->set_latency(latency / 2)->seal());
        in.push_back(zone->create_link("in" + name, link)->set_latency(latency / 2)->seal());
      }
      for (size_t a = 0; a < count; a++)
        for (size_t b = 0; b < count; b++)
          if (a != b)
            zone->add_route(hosts[a]->get_netpoint(), hosts[b]->get_netpoint(), nullptr, nullptr,
                            {sg4::LinkInRoute(out[a]), sg4::LinkInRoute(in[b])}, false);
      zone->seal();
      idle.assign(count, slots);
    } else if (kind == "layout") {
      words >> layout >> parts;
    } else if (kind == "file") {
      files.emplace_back();
    } else if (kind == "task") {
      Task task;
      words >> task.overhead;
      for (std::string word; words >> word;) {
        Operation operation{word.at(0), 0, 0};
        std::istringstream rest(word.substr(2));
        char colon = 0;
        if (operation.kind == 'c')
          rest >> operation.amount;
        else
          rest >> operation.file >> colon >> operation.amount;
        if (operation.kind == 'w') files.at(operation.file).writer = static_cast<int>(tasks.size());
        task.operations.push_back(operation);
      }
      tasks.push_back(task);
    } else {
      std::fprintf(stderr, "expected 'hosts', 'layout', 'file' or 'task': %s\n", line.c_str());
      return 2;
    }
  }
  int next = 0;
  for (size_t number = 0; number < files.size(); number++)
    if (files[number].writer < 0) {
      files[number].is_made = true;
      files[number].hosts = hosts_of(number, next++ % static_cast<int>(hosts.size()));
    }
  sg4::Actor::create("begin", hosts.front(), deal);
  engine.run();
  std::printf("%.17g\n", makespan);
  return 0;
}
