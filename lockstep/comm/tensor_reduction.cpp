// Tensors as the arguments of a network reduction (bytes, kernel, element size), and carrier dtypes of narrow floats.
#include <lockstep/comm/tensor_reduction.h>

#include <lockstep/base/error.h>
#include <lockstep/comm/arguments.h>

#include <ATen/ops/from_blob.h>

#include <utility>

namespace lockstep::detail {

reduction::DType dtype_of(const at::Tensor& tensor) {
  using reduction::DType;
  switch (tensor.scalar_type()) {
    case at::kFloat: return DType::float32;
    case at::kDouble: return DType::float64;
    case at::kBFloat16: return DType::bfloat16;
    case at::kHalf: return DType::float16;
    case at::kChar: return DType::int8;
    case at::kByte: return DType::uint8;
    case at::kShort: return DType::int16;
    case at::kInt: return DType::int32;
    case at::kLong: return DType::int64;
    case at::kBool: return DType::boolean;
    case at::kComplexFloat: return DType::complex64;
    case at::kComplexDouble: return DType::complex128;
    default: return DType::other;
  }
}

NetworkCall network_call(ResultOf kind, int rank, int root, std::vector<std::vector<RankRange>> brought,
                         const at::Tensor& input, const at::Tensor& output, ReduceOp op) {
  NetworkCall call;
  call.kind = kind;
  call.rank = rank;
  call.root = root;
  call.kernel = reduction::reduce_kernel(dtype_of(input), op);
  if (call.kernel == nullptr) {
    fail(ErrorKind::unsupported, "reduce", "{} of {} is not possible", name(op), dtype_name(input.scalar_type()));
  }
  call.input = static_cast<const std::byte*>(input.data_ptr());
  call.bytes = input.nbytes() / brought[static_cast<std::size_t>(rank)].size();
  call.item_bytes = input.element_size();
  if (output.defined()) call.output = static_cast<std::byte*>(output.data_ptr());
  call.brought = std::move(brought);
  return call;
}

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
  // The result keeps the tensor, whose memory it shows.
  return at::from_blob(
      tensor.data_ptr(), {bytes}, [tensor](void*) {}, at::TensorOptions().dtype(at::kByte));
}

}  // namespace lockstep::detail
