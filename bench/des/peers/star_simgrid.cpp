// Hosts around a switch in SimGrid: each sends to a random other one, then computes, over and over.
//
// Every host has a link up and a link down. A transfer and a computation are an activity each. TCP
// corrections are switched off (see tests/simgrid/flows.cpp), so that sharing is max-min.
//
// Arguments: number of hosts, number of activities to measure. Output: a line of JSON.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

static const double BYTES_PER_SECOND = 1e9, MEAN_BYTES = 1e8, FLOPS = 1e9, MEAN_SECONDS = 0.1;

static std::vector<sg4::Host *> hosts;
static std::mt19937_64 rng(1);
static long activities = 0, warm = 0, wanted = 0;
static double cpu_start = 0, cpu_seconds = 0, seconds = 0;
static std::chrono::steady_clock::time_point start;

static double cpu_now() { return (double)std::clock() / CLOCKS_PER_SEC; }

static void count() {
  activities++;
  if (activities == warm) {
    start = std::chrono::steady_clock::now();
    cpu_start = cpu_now();
  } else if (activities == warm + wanted) {
    cpu_seconds = cpu_now() - cpu_start;
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    sg4::Actor::kill_all();
  }
}

static void task(size_t host) {
  std::exponential_distribution<double> bytes(1 / MEAN_BYTES), compute(1 / MEAN_SECONDS);
  std::uniform_int_distribution<size_t> other(0, hosts.size() - 2);
  while (activities < warm + wanted) {
    size_t receiver = other(rng);
    if (receiver >= host) receiver++;
    sg4::Comm::sendto(hosts[host], hosts[receiver], 1 + (uint64_t)bytes(rng));
    count();
    sg4::this_actor::execute(compute(rng) * FLOPS);
    count();
  }
}

int main(int argc, char **argv) {
  sg4::Engine engine(&argc, argv);
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s HOSTS ACTIVITIES\n", argv[0]);
    return 2;
  }
  size_t number = std::strtoul(argv[1], nullptr, 10);
  wanted = std::strtol(argv[2], nullptr, 10);
  warm = wanted / 5 + 1;
  for (const char *setting : {"network/model:CM02", "network/bandwidth-factor:1",
                              "network/latency-factor:1", "network/weight-S:0", "network/TCP-gamma:0",
                              "network/crosstraffic:0"})
    sg4::Engine::set_config(setting);
  sg4::NetZone *zone = sg4::create_star_zone("star");
  for (size_t i = 0; i < number; i++) {
    sg4::Host *host = zone->create_host("host" + std::to_string(i), FLOPS)->seal();
    sg4::Link *up = zone->create_link("up" + std::to_string(i), BYTES_PER_SECOND)->seal();
    sg4::Link *down = zone->create_link("down" + std::to_string(i), BYTES_PER_SECOND)->seal();
    zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr, {sg4::LinkInRoute(up)}, false);
    zone->add_route(nullptr, host->get_netpoint(), nullptr, nullptr, {sg4::LinkInRoute(down)}, false);
    hosts.push_back(host);
  }
  zone->seal();
  for (size_t i = 0; i < number; i++) sg4::Actor::create("task", hosts[i], task, i);
  engine.run();
  std::printf("{\"events\": %ld, \"seconds\": %.9f, \"cpu_seconds\": %.9f, \"bytes_per_pending\": null}\n",
              wanted, seconds, cpu_seconds);
  return 0;
}
