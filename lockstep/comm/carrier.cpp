#include <lockstep/comm/carrier.h>

#include <lockstep/base/error.h>
#include <lockstep/comm/arguments.h>

#include <ATen/ops/from_blob.h>

namespace lockstep::detail {

at::ScalarType carrier_dtype(at::ScalarType dtype, const Native& native) {
  if (dtype == at::kHalf || dtype == at::kBFloat16) return at::kFloat;
  if (dtype == at::kBool) return at::kByte;
  if (native(dtype)) return dtype;
  if (dtype == at::kShort) return at::kInt;
  fail(ErrorKind::unsupported, "reduce", "this backend cannot reduce {}", dtype_name(dtype));
}

ReduceOp carrier_op(at::ScalarType dtype, ReduceOp op) {
  if (op == ReduceOp::mean) return ReduceOp::sum;
  if (dtype != at::kBool) return op;
  if (op == ReduceOp::sum) return ReduceOp::max;
  return op == ReduceOp::product ? ReduceOp::min : op;
}

void deliver(at::Tensor& result, at::Tensor carried, ReduceOp op, int size) {
  if (op == ReduceOp::mean) carried.div_(size);
  if (!carried.is_same(result)) result.copy_(carried);
}

at::Tensor as_bytes(const at::Tensor& tensor) {
  const auto bytes = tensor.numel() * static_cast<std::int64_t>(tensor.element_size());
  // Holds the tensor, whose memory it shows.
  return at::from_blob(
      tensor.data_ptr(), {bytes}, [tensor](void*) {}, at::TensorOptions().dtype(at::kByte));
}

}  // namespace lockstep::detail
