#include <lockstep/cluster/line_prefix.h>
#include <lockstep/cluster/macros.h>

#include <fmt/core.h>
#include <limits.h>
#include <unistd.h>

#include <array>

namespace lockstep::cluster {
namespace {

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace

std::string LinePrefix::of(int rank, int local_rank) const {
  if (!shown) return "";
  if (!format.empty()) {
    return replace_macros(format, {{"role_name", role},
                                   {"rank", std::to_string(rank)},
                                   {"local_rank", std::to_string(local_rank)},
                                   {"host", host_name()}});
  }
  return role == "default" ? fmt::format("[rank {}] ", rank) : fmt::format("[{} rank {}] ", role, rank);
}

}  // namespace lockstep::cluster
