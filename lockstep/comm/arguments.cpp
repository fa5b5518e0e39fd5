// Checks of the tensors, ranks, roots and tags of collectives, each of which returns the problem as text, or nothing;
// and the comparison of calls by fingerprints of fixed length, a hash (FNV-1a) and a text, exchanged over the backend.
#include <lockstep/base/error.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/comm/arguments.h>
#include <lockstep/comm/group_impl.h>

#include <ATen/MemoryOverlap.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

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

std::uint8_t number_of_dtype(at::ScalarType dtype) noexcept {
  switch (dtype) {
    case at::kFloat: return number_of_element("float32");
    case at::kDouble: return number_of_element("float64");
    case at::kHalf: return number_of_element("float16");
    case at::kBFloat16: return number_of_element("bfloat16");
    case at::kByte: return number_of_element("uint8");
    case at::kChar: return number_of_element("int8");
    case at::kShort: return number_of_element("int16");
    case at::kInt: return number_of_element("int32");
    case at::kLong: return number_of_element("int64");
    case at::kBool: return number_of_element("bool");
    case at::kComplexFloat: return number_of_element("complex64");
    case at::kComplexDouble: return number_of_element("complex128");
    default: return number_of_element("other");
  }
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

namespace {

constexpr std::size_t kHashDigits = 16;

// FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv): the same on every rank, unlike std::hash.
std::uint64_t fnv1a(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::string readable(const std::string& fingerprint) {
  auto text = fingerprint.substr(kHashDigits);
  text.resize(std::min(text.size(), text.find('\0')));
  return text;
}

}  // namespace

std::string fingerprint(const std::string& signature, std::uint64_t trace) {
  // The hash comes first because the message may be too short for the whole signature.
  auto message = fmt::format("{:016x}{}", fnv1a(signature) ^ trace, signature);
  message.resize(kFingerprintBytes, '\0');
  return message;
}

std::string refusal(const std::string& signature, const std::string& problem) {
  return fmt::format("{} (refused there: {})", signature, problem);
}

std::optional<std::string> disagreement(const std::vector<std::string>& fingerprints) {
  std::vector<std::pair<std::string, std::vector<int>>> kinds;  // in the order of their first ranks
  for (std::size_t rank = 0; rank < fingerprints.size(); ++rank) {
    const auto same = [&](const auto& kind) { return kind.first == fingerprints[rank]; };
    auto found = std::find_if(kinds.begin(), kinds.end(), same);
    if (found == kinds.end()) found = kinds.insert(kinds.end(), {fingerprints[rank], {}});
    found->second.push_back(static_cast<int>(rank));
  }
  if (kinds.size() < 2) return std::nullopt;
  std::vector<std::string> parts;
  for (const auto& [text, ranks] : kinds) {
    parts.push_back(fmt::format("{}: {}", names_of_ranks(ranks), readable(text)));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

void agree(GroupImpl& group, const Call& call, const std::string& signature,
           const std::optional<std::string>& problem) {
  std::optional<std::string> difference;
  if (group.members().size() > 1) {
    const auto start = std::chrono::steady_clock::now();
    try {
      auto text = problem ? refusal(signature, *problem) : signature;
      if (call.trace != 0) text += fmt::format(" in global operator {}", call.step);
      const auto all = group.backend().exchange(fingerprint(text, call.trace), call);
      const auto end = std::chrono::steady_clock::now();
      group.job()->note_waited(end - start);
      StatusPage::begin(call.record, end);
      difference = disagreement(all);
    } catch (...) {
      group.rethrow(call, std::current_exception(),
                    std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start));
    }
  }
  if (problem) throw Error(ErrorKind::invalid_argument, call.op, *problem);
  if (!difference) return;
  throw Error(
      ErrorKind::mismatch, call.op,
      fmt::format("the ranks of group \"{}\" do not make the same call number {}{}. {}. All of them must call the "
                  "same collectives in the same order, with equal shapes and dtypes{}",
                  group.members().name, call.sequence, group.here(call), *difference, group.compare_traces(call)));
}

}  // namespace lockstep::detail
