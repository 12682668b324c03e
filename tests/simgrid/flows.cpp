// Flows over shared links in SimGrid: when does each end?
//
// Standard input, one line each:   link BYTES_PER_SECOND
//                                  flow START_SECONDS BYTES LIMIT_BYTES_PER_SECOND LINK...
// (limit 0: none). Standard output: the end of each flow in seconds, in the order of the flows.
//
// SimGrid's network model is max-min sharing with corrections for TCP: protocol overhead (bandwidth
// factor), slow start (latency factor), unfairness between round-trip times (weight S), windows (TCP
// gamma) and acknowledgements (cross traffic). All are switched off here and links have no latency, so
// that pure max-min sharing remains. Links are directed: each carries the flows that name it.

#include <cstdio>
#include <iostream>
#include <memory>
#include <simgrid/s4u.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

struct Flow {
  double start = 0, limit = 0, end = -1;
  uint64_t bytes = 0;
  std::vector<size_t> path;
  sg4::Host *from = nullptr, *to = nullptr;
};

static void send(Flow *flow, sg4::Mailbox *mailbox) {
  sg4::this_actor::sleep_until(flow->start);
  sg4::CommPtr comm = mailbox->put_init(flow, flow->bytes);
  // SimGrid 3.32 ignores the limit of transfers without a mailbox.
  if (flow->limit > 0) comm->set_rate(flow->limit);
  comm->wait();
  flow->end = sg4::Engine::get_clock();
}

static void receive(sg4::Mailbox *mailbox) { mailbox->get<Flow>(); }

int main(int argc, char **argv) {
  sg4::Engine engine(&argc, argv);
  for (const char *setting :
       {"network/model:CM02", "network/bandwidth-factor:1", "network/latency-factor:1",
        "network/weight-S:0", "network/TCP-gamma:0", "network/crosstraffic:0",
        "maxmin/precision:1e-9", "surf/precision:1e-9"})
    sg4::Engine::set_config(setting);
  sg4::NetZone *zone = sg4::create_full_zone("network");
  std::vector<sg4::Link *> links;
  std::vector<std::unique_ptr<Flow>> flows;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "link") {
      double capacity = 0;
      words >> capacity;
      links.push_back(zone->create_link("link" + std::to_string(links.size()), capacity)->seal());
    } else if (kind == "flow") {
      auto flow = std::make_unique<Flow>();
      words >> flow->start >> flow->bytes >> flow->limit;
      for (size_t link; words >> link;) flow->path.push_back(link);
      flows.push_back(std::move(flow));
    } else {
      std::fprintf(stderr, "expected 'link' or 'flow': %s\n", line.c_str());
      return 2;
    }
  }
  for (size_t i = 0; i < flows.size(); i++) {
    Flow *flow = flows[i].get();
    flow->from = zone->create_host("from" + std::to_string(i), 1e9)->seal();
    flow->to = zone->create_host("to" + std::to_string(i), 1e9)->seal();
    std::vector<sg4::LinkInRoute> route;
    for (size_t link : flow->path) route.emplace_back(links.at(link));
    zone->add_route(flow->from->get_netpoint(), flow->to->get_netpoint(), nullptr, nullptr, route, false);
  }
  zone->seal();
  for (size_t i = 0; i < flows.size(); i++) {
    sg4::Mailbox *mailbox = sg4::Mailbox::by_name(std::to_string(i));
    sg4::Actor::create("receiver", flows[i]->to, receive, mailbox);
    sg4::Actor::create("sender", flows[i]->from, send, flows[i].get(), mailbox);
  }
  engine.run();
  for (auto &flow : flows) std::printf("%.17g\n", flow->end);
  return 0;
}
