// A parser of --nprocs, --world_size, --rank and --init_method out of a program's own command line.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/cluster/spawn.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace lockstep {
namespace {

constexpr const char* kWhere = "spawn_arguments";
constexpr int kMost = 1 << 20;

int number(std::string_view name, std::string_view text, int least) {
  const auto value = parse_integer(text);
  if (!value || *value < least || *value > kMost) {
    fail(ErrorKind::invalid_argument, kWhere, "{} needs a whole number from {} to {}, not \"{}\"", name, least, kMost,
         text);
  }
  return static_cast<int>(*value);
}

void check(const SpawnOptions& options) {
  if (options.node_rank >= options.nodes) {
    fail(ErrorKind::invalid_argument, kWhere, "--rank {} is not below --world_size {}; nodes are numbered from 0",
         options.node_rank, options.nodes);
  }
  if (options.nodes > 1 && options.init_method.empty()) {
    fail(ErrorKind::invalid_argument, kWhere,
         "--world_size {} needs --init_method, the rendezvous of the nodes, e.g. tcp://ADDRESS_OF_NODE_0:6060",
         options.nodes);
  }
}

}  // namespace

SpawnArguments spawn_arguments(int argc, const char* const* argv) {
  SpawnArguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const auto equals = word.find('=');
    std::string name(word.substr(0, equals));
    std::replace(name.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(2, name.size())), name.end(), '-',
                 '_');
    const bool known = name == "--nprocs" || name == "--nproc_per_node" || name == "--world_size" || name == "--rank" ||
                       name == "--init_method";
    if (!known) {
      arguments.rest.emplace_back(word);
      continue;
    }
    if (equals == std::string_view::npos && i + 1 == argc) {
      fail(ErrorKind::invalid_argument, kWhere, "{} is the last argument; its value is missing", word);
    }
    const std::string_view value = equals == std::string_view::npos ? argv[++i] : word.substr(equals + 1);
    if (name == "--world_size") {
      arguments.options.nodes = number(name, value, 1);
    } else if (name == "--rank") {
      arguments.options.node_rank = number(name, value, 0);
    } else if (name == "--init_method") {
      arguments.options.init_method = value;
    } else {
      arguments.nprocs = number(name, value, 1);
    }
  }
  check(arguments.options);
  return arguments;
}

}  // namespace lockstep
