#include <lockstep/base/error.h>
#include <lockstep/cli/job_shape.h>
#include <lockstep/cli/refuse.h>

namespace lockstep::cli {
namespace {

void check(const NodeFlags& flags) {
  const auto nodes = node_count_of(flags);
  if (flags.standalone && nodes.most > 1) refuse("--standalone is one node, and --nnodes is {}", flags.nnodes);
  const std::string& backend = flags.rdzv_backend;
  if (backend == "static" || backend == "c10d" || backend == "etcd") return;
  if (backend == "etcd-v2") {
    refuse("--rdzv_backend etcd-v2: version 2 of etcd's API is not spoken; version 3 is, as --rdzv_backend etcd");
  }
  fail(ErrorKind::unsupported, "run",
       "--rdzv_backend '{}' is not part of this version; there are static, c10d and etcd", backend);
}

}  // namespace

bool is_one_node(const NodeFlags& flags) {
  return flags.standalone || (flags.rdzv_backend == "static" && node_count_of(flags).most == 1);
}

bool needs_agent(const NodeFlags& flags) {
  if (!flags.nodes.empty()) return false;
  check(flags);
  return flags.max_restarts != 0 || !is_one_node(flags);
}

}  // namespace lockstep::cli
