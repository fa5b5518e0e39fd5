#include <lockstep/cluster/elastic/open_files.h>

#include <sys/resource.h>

#include <algorithm>

namespace lockstep::cluster::elastic {
namespace {

/// The hard limit can be a billion, and some programs close every number below the soft one before they start others.
constexpr rlim_t kEnough = 1 << 20;

}  // namespace

void raise_open_file_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min(limit.rlim_max, kEnough);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

}  // namespace lockstep::cluster::elastic
