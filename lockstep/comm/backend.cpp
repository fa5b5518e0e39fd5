#include <lockstep/comm/backend.h>

#include <ATen/ops/empty.h>

namespace lockstep::detail {

at::Tensor Backend::allocate(std::int64_t elements, at::ScalarType dtype) {
  return at::empty({elements}, at::TensorOptions().dtype(dtype));
}

}  // namespace lockstep::detail
