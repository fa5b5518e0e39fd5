// A program that is started once on each node of a list, and nothing else. Node 0 is found by its address.
//
//   ./node_list 9988 192.168.1.12 192.168.1.11        on both machines
#include <lockstep/lockstep.h>

#include <torch/torch.h>

#include <cstdlib>
#include <iostream>

void meet(const lockstep::NodeList& nodes) {
  const auto group = lockstep::init(nodes);
  const auto all = lockstep::all_gather(torch::full({1}, group.rank()), group);
  if (group.rank() == 0) std::cout << "met " << all.size(0) << " nodes: " << describe(group.world()) << std::endl;
}

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: node_list CTRL_PORT ADDRESS..." << std::endl;
    return 1;
  }
  try {
    lockstep::NodeList nodes;
    nodes.ctrl_port = static_cast<std::uint16_t>(std::strtoul(argv[1], nullptr, 10));
    nodes.addresses.assign(argv + 2, argv + argc);
    meet(nodes);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
