#include <lockstep/base/this_host.h>
#include <lockstep/cluster/line_prefix.h>
#include <lockstep/cluster/macros.h>

#include <fmt/core.h>

namespace lockstep::cluster {

std::string LinePrefix::of(int rank, int local_rank) const {
  if (!shown) return "";
  if (!format.empty()) {
    return replace_macros(format, {{"role_name", role},
                                   {"rank", std::to_string(rank)},
                                   {"local_rank", std::to_string(local_rank)},
                                   {"host", host_name().value_or("localhost")}});
  }
  return role == "default" ? fmt::format("[rank {}] ", rank) : fmt::format("[{} rank {}] ", role, rank);
}

}  // namespace lockstep::cluster
