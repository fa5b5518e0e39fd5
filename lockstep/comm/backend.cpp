#include <lockstep/base/error.h>
#include <lockstep/comm/backend.h>

#include <ATen/ops/empty.h>

namespace lockstep::detail {

Backend::Pending Backend::reduce_parts(const at::Tensor&, const at::Tensor&, int, const std::vector<int>&, ReduceOp,
                                       const Call&) {
  fail(ErrorKind::unsupported, "reduce", "{} is not an engine inside a host", name());
}

Backend::Pending Backend::combine(ResultOf, const at::Tensor&, const at::Tensor&,
                                  const std::vector<std::vector<RankRange>>&, int, ReduceOp, const Call&) {
  fail(ErrorKind::unsupported, "reduce", "{} is not an engine between hosts", name());
}

at::Tensor Backend::allocate(std::int64_t elements, at::ScalarType dtype) {
  return at::empty({elements}, at::TensorOptions().dtype(dtype));
}

}  // namespace lockstep::detail
