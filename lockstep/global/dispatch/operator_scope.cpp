// Hashes and texts of operators and redistributions for the mesh's trace, and the operators that are not on it.
#include <lockstep/base/error.h>
#include <lockstep/comm/arguments.h>
#include <lockstep/global/dispatch/operator_scope.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep::global {
namespace {

/// A hash that is the same on every rank, unlike std::hash and addresses.
class StableHash {
 public:
  void add(std::uint64_t word) {
    hash_ = (hash_ ^ word) * 0xff51afd7ed558ccdULL;
    hash_ ^= hash_ >> 32;
  }
  void add(std::string_view text) {
    for (const char c : text) add(static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
  }
  void add(c10::IntArrayRef sizes) {
    for (const auto size : sizes) add(static_cast<std::uint64_t>(size));
  }
  void add(const Placements& placements) {
    for (const auto& each : placements) {
      add(static_cast<std::uint64_t>(each.kind) << 40 ^ static_cast<std::uint64_t>(each.op) << 32 ^
          static_cast<std::uint64_t>(each.dim));
    }
  }
  std::uint64_t value() const { return hash_ | 1; }  // 0 means none

 private:
  std::uint64_t hash_ = 0x9e3779b97f4a7c15ULL;
};

std::string text_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "none";
  if (!is_global(tensor)) return "a number";
  return fmt::format("{}[{}] {}", detail::dtype_name(tensor.scalar_type()), fmt::join(tensor.sizes().vec(), ", "),
                     to_string(state_of(tensor).sharding->placements));
}

bool gives_a_tensor(const c10::OperatorHandle& op) {
  const auto& returns = op.schema().returns();
  return std::any_of(returns.begin(), returns.end(), [](const c10::Argument& each) {
    const auto kind = each.type()->kind();
    return kind == c10::TypeKind::TensorType || kind == c10::TypeKind::ListType;
  });
}

bool brings_inputs(const Plan& plan, const std::vector<TensorArgument>& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (plan.inputs[i] && plan.inputs[i] != state_of(inputs[i].tensor).sharding) return true;
  }
  return false;
}

OperatorTrace* take_redistribution(const at::Tensor& tensor, const Placements& to) {
  auto& state = state_of(tensor);
  OperatorTrace* trace = state.mesh->trace();
  const auto& from = state.sharding->placements;
  if (!trace || from == to) return nullptr;
  StableHash hash;
  hash.add(tensor.sizes());
  hash.add(static_cast<std::uint64_t>(tensor.scalar_type()));
  hash.add(from);
  hash.add(to);
  trace->take(hash.value(), trace->text_for(hash.value(), [&] {
    return fmt::format("redistribute {} to {}", text_of(tensor), to_string(to));
  }));
  return trace;
}

OperatorTrace* take_other(std::string_view what, MeshState& mesh, const at::Tensor& tensor,
                          const Placements& placements) {
  OperatorTrace* trace = mesh.trace();
  if (!trace) return nullptr;
  StableHash hash;
  hash.add(what);
  hash.add(static_cast<std::uint64_t>(tensor.scalar_type()));
  hash.add(static_cast<std::uint64_t>(tensor.dim()));  // sizes may differ: parts are uneven
  hash.add(placements);
  trace->take(hash.value(), trace->text_for(hash.value(), [&] {
    return fmt::format("{} {} of {} dimensions, {}", what, detail::dtype_name(tensor.scalar_type()), tensor.dim(),
                       to_string(placements));
  }));
  return trace;
}

}  // namespace

void add_to_trace(Plan& plan, const c10::OperatorHandle& op, const OpInfo& info,
                  const std::vector<TensorArgument>& inputs) {
  std::vector<std::string> texts;
  for (const auto& each : inputs) texts.push_back(text_of(each.tensor));
  plan.trace_text = fmt::format("{}{}{}", info.shown, texts.empty() ? "" : " of ", fmt::join(texts, ", "));
  if (!plan.outputs.empty()) {
    plan.trace_text += fmt::format(" giving [{}]", fmt::join(plan.outputs[0].shape.sizes, ", "));
  }
  const bool writes = info.written_self || !info.written_beside.empty();
  const bool replicated = std::all_of(inputs.begin(), inputs.end(), [](const TensorArgument& each) {
    return !is_global(each.tensor) || state_of(each.tensor).sharding->replicated;
  });
  // Operators that read parts (equal) send a result about them.
  if (!brings_inputs(plan, inputs) && !writes && (info.is_view || (!gives_a_tensor(op) && replicated))) {
    plan.for_one_rank = replicated;
    return;
  }
  StableHash hash;
  hash.add(std::string_view(plan.trace_text));
  plan.trace_hash = hash.value();
}

OperatorScope::OperatorScope(const at::Tensor& tensor, const Placements& to)
    : OperatorScope(take_redistribution(tensor, to)) {}

OperatorScope::OperatorScope(std::string_view what, MeshState& mesh, const at::Tensor& tensor,
                             const Placements& placements)
    : OperatorScope(take_other(what, mesh, tensor, placements)) {}

void OperatorScope::failed(const MeshState& mesh) const noexcept {
  if (!fails_on_ || fails_on_->failures() != failures_before_) return;
  const int rank = mesh.group().rank();
  const auto fail = [&](ErrorKind kind, std::string_view error) {
    if (unsaid_) fails_on_->take(1, *unsaid_);
    fails_on_->fail(rank, kind, error);
  };
  try {
    throw;
  } catch (const Error& error) {
    const auto kind = error.kind();
    const bool of_all = kind == ErrorKind::mismatch || kind == ErrorKind::peer_lost || kind == ErrorKind::timeout;
    if (!of_all) fail(kind, error.message());
  } catch (const c10::Error& error) {
    fail(ErrorKind::invalid_argument, error.what_without_backtrace());
  } catch (const std::exception& error) {
    fail(ErrorKind::invalid_argument, error.what());
  } catch (...) {
    fail(ErrorKind::invalid_argument, "an unknown exception");
  }
}

}  // namespace lockstep::global
