// The options of `lockstep run` for jobs on several nodes, as torch.distributed.run and .launch have them.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/world/world.h>

#include <cstdint>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace lockstep::cli {

struct NodeFlags {
  std::string nnodes = "1";
  std::optional<std::int64_t> node_rank;
  std::optional<std::string> master_addr;
  std::optional<std::int64_t> master_port;
  std::string rdzv_backend = "static";
  std::string rdzv_endpoint;
  std::string rdzv_id;
  std::string rdzv_conf;
  std::string nodes;  ///< addresses separated by commas, instead of all the above
  std::optional<std::int64_t> ctrl_port;
};

void add_node_flags(CLI::App& command, NodeFlags& flags);

/// The world of the first of `processes` ranks on this node; nullopt when the whole job is here and no place to meet is
/// given. Error(invalid_argument) for flags that are half given, contradict each other, or are of a later version.
std::optional<World> first_rank_of(const NodeFlags& flags, int processes, const Environment& environment);

}  // namespace lockstep::cli
