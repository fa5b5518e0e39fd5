#include <lockstep/comm/carrier.h>

#include <ATen/ops/from_blob.h>

namespace lockstep::detail {

at::ScalarType carrier_dtype(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16 ? at::kFloat : dtype;
}

ReduceOp carrier_op(ReduceOp op) { return op == ReduceOp::mean ? ReduceOp::sum : op; }

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
