#include <lockstep/comm/counts.h>

#include <algorithm>

namespace lockstep::detail {

std::vector<Span> split(std::int64_t total, std::int64_t most) {
  std::vector<Span> spans;
  for (std::int64_t begin = 0; begin < total; begin += most) spans.push_back({begin, std::min(most, total - begin)});
  return spans;
}

}  // namespace lockstep::detail
