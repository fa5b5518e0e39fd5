// Checks of the tensors, ranks, roots and tags of collectives: each returns the problem as text, or nothing.
#include <lockstep/comm/arguments.h>

#include <ATen/MemoryOverlap.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace lockstep::detail {
namespace {

bool movable(at::ScalarType dtype) {
  return at::isFloatingType(dtype) || at::isComplexType(dtype) || at::isIntegralType(dtype, /*includeBool=*/true);
}

}  // namespace

std::string dtype_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat: return "float32";
    case at::kDouble: return "float64";
    case at::kHalf: return "float16";
    case at::kBFloat16: return "bfloat16";
    case at::kByte: return "uint8";
    case at::kChar: return "int8";
    case at::kShort: return "int16";
    case at::kInt: return "int32";
    case at::kLong: return "int64";
    case at::kBool: return "bool";
    case at::kComplexFloat: return "complex64";
    case at::kComplexDouble: return "complex128";
    default: break;
  }
  std::string name = at::toString(dtype);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

std::string describe(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  // Only the kind of the device, because the index of the device differs between ranks.
  const auto device = tensor.is_cpu() ? "" : " on " + c10::DeviceTypeName(tensor.device().type(), /*lower_case=*/true);
  return fmt::format("{}[{}]{}", dtype_name(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "), device);
}

Problem check_tensor(const at::Tensor& tensor, std::string_view what) {
  if (!tensor.defined()) return fmt::format("{} is an undefined tensor", what);
  if (tensor.layout() != at::kStrided) return fmt::format("{} must be dense; call to_dense() first", what);
  if (!movable(tensor.scalar_type())) {
    return fmt::format("{} has dtype {}, which no backend carries", what, dtype_name(tensor.scalar_type()));
  }
  return std::nullopt;
}

Problem check_written(const at::Tensor& tensor, std::string_view what) {
  if (auto problem = check_tensor(tensor, what)) return problem;
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
    return fmt::format("{} is written but several of its elements share memory (an expanded tensor?); clone it first",
                       what);
  }
  return std::nullopt;
}

Problem check_reduction(const at::Tensor& tensor, ReduceOp op) {
  if (!tensor.defined()) return std::nullopt;  // check_tensor reports this
  if (tensor.is_complex()) {
    if (op == ReduceOp::sum || op == ReduceOp::mean) return std::nullopt;
    return fmt::format("the {} of complex numbers is not defined; sum and mean are", name(op));
  }
  if (op == ReduceOp::mean && !tensor.is_floating_point()) {
    return fmt::format("the mean of {} is not defined; use sum, or convert to float32",
                       dtype_name(tensor.scalar_type()));
  }
  return std::nullopt;
}

Problem check_rows(const at::Tensor& tensor, int size) {
  if (tensor.dim() > 0 && tensor.size(0) % size == 0) return std::nullopt;
  return fmt::format("dimension 0 of {} must be divisible by the {} ranks of the group", describe(tensor), size);
}

Problem check_output(const at::Tensor& output, const at::Tensor& like, std::int64_t elements) {
  if (auto problem = check_written(output, "the output")) return problem;
  if (!output.is_contiguous() || output.numel() != elements || output.scalar_type() != like.scalar_type()) {
    return fmt::format("the output must be contiguous with {} elements of {}; it is {}{}", elements,
                       dtype_name(like.scalar_type()), describe(output),
                       output.is_contiguous() ? "" : ", not contiguous");
  }
  if (output.device() != like.device()) {
    return fmt::format("the output is on {} and the tensor on {}; both must be on one device", output.device().str(),
                       like.device().str());
  }
  if (output.is_conj() || output.is_neg()) {
    return "the output is a lazy view, a conj() or a negative, of which the memory holds other numbers; clone it first";
  }
  return std::nullopt;
}

Problem check_rank(int rank, int size, std::string_view what) {
  if (rank >= 0 && rank < size) return std::nullopt;
  return fmt::format("{} {} is not a rank of the group; its ranks are 0..{}", what, rank, size - 1);
}

Problem check_message(int peer, int self, int size, int tag, std::string_view what) {
  if (auto problem = check_rank(peer, size, what)) return problem;
  if (peer == self) return fmt::format("{} {} is this rank itself; a rank cannot send to itself", what, peer);
  if (tag < 0 || tag > kMaxTag) return fmt::format("tag {} must be in 0..{}", tag, kMaxTag);
  return std::nullopt;
}

std::vector<std::int64_t> rows_times(const at::Tensor& tensor, std::int64_t factor) {
  auto shape = tensor.sizes().vec();
  if (shape.empty()) shape.push_back(1);
  shape[0] *= factor;
  return shape;
}

std::vector<std::int64_t> rows_divided(const at::Tensor& tensor, std::int64_t divisor) {
  auto shape = tensor.sizes().vec();
  shape[0] /= divisor;
  return shape;
}

}  // namespace lockstep::detail
