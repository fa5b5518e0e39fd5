// The cut of a tensor into slices, one for each column of ranks, on cache lines, and their broadcasts inside a host.
#include <lockstep/comm/hierarchy/plans.h>

#include <lockstep/comm/work_states.h>

#include <algorithm>
#include <utility>

namespace lockstep::detail {

std::vector<Span> split(std::int64_t total, std::int64_t most) {
  std::vector<Span> spans;
  for (std::int64_t begin = 0; begin < total; begin += most) spans.push_back({begin, std::min(most, total - begin)});
  return spans;
}

}  // namespace lockstep::detail

namespace lockstep::detail::hierarchy {
namespace {

constexpr std::size_t kTooSmallToCut = 256 << 10;  // bytes
constexpr std::int64_t kLine = 64;                 // elements, so whole cache lines for every dtype

std::int64_t slice_length(std::int64_t elements, std::int64_t columns) {
  const auto even = (elements + columns - 1) / columns;
  return (even + kLine - 1) / kLine * kLine;
}

}  // namespace

std::vector<at::Tensor> slices_of(const Hosts& hosts, const at::Tensor& flat) {
  if (hosts.columns() == 1 || flat.nbytes() < kTooSmallToCut) return {flat};
  std::vector<at::Tensor> slices;
  for (const auto& part : split(flat.numel(), slice_length(flat.numel(), hosts.columns()))) {
    slices.push_back(flat.narrow(0, part.begin, part.count));
  }
  return slices;
}

Backend::Pending hand_out(const Engines& engines, const std::vector<at::Tensor>& slices, const Call& call) {
  std::vector<Backend::Pending> parts;
  for (std::size_t carrier = 0; carrier < slices.size(); ++carrier) {
    auto slice = slices[carrier];
    parts.push_back(engines.down->broadcast(slice, static_cast<int>(carrier), call));
  }
  return all_of(std::move(parts));
}

}  // namespace lockstep::detail::hierarchy
