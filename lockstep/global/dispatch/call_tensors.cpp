// Tensor arguments of a boxed call, taken and replaced by position, and result shapes by meta kernel or by rule.
#include <lockstep/global/dispatch/op_info.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <mutex>
#include <unordered_set>

namespace lockstep::global {
namespace {

bool is_optional_tensor_list(const c10::IValue& value) {
  return value.isList() && !value.isTensorList() && !value.isIntList() && !value.isBoolList() &&
         !value.isDoubleList() && value.type()->isSubtypeOf(*c10::ListType::ofOptionalTensors());
}

}  // namespace

std::vector<TensorArgument> input_tensors(const OpInfo& info, const torch::jit::Stack& arguments) {
  std::vector<TensorArgument> found;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (info.is_out[i]) continue;
    const auto& value = arguments[i];
    if (value.isTensor()) {
      found.push_back({.tensor = value.toTensor(), .position = i});
    } else if (value.isTensorList()) {
      for (const auto& tensor : value.toTensorVector()) found.push_back({.tensor = tensor, .position = i});
    } else if (is_optional_tensor_list(value)) {
      for (const auto& each : value.toListRef()) {
        found.push_back({.tensor = each.isNone() ? at::Tensor() : each.toTensor(), .position = i});
      }
    }
  }
  return found;
}

void replace_inputs(const OpInfo& info, torch::jit::Stack& arguments, const std::vector<at::Tensor>& locals) {
  auto next = locals.begin();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (info.is_out[i]) continue;
    auto& value = arguments[i];
    if (value.isTensor()) {
      value = *next++;
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (std::size_t n = value.toTensorList().size(); n > 0; --n) list.push_back(*next++);
      value = std::move(list);
    } else if (is_optional_tensor_list(value)) {
      c10::List<c10::optional<at::Tensor>> list;
      for (std::size_t n = value.toListRef().size(); n > 0; --n) {
        list.push_back(next->defined() ? c10::optional<at::Tensor>(*next) : c10::nullopt);
        ++next;
      }
      value = std::move(list);
    }
  }
}

const c10::OperatorHandle& without_out(const c10::OperatorHandle& op, const OpInfo& info, torch::jit::Stack& arguments,
                                       c10::Device device) {
  if (!info.has_out) return op;
  torch::jit::Stack kept;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!info.is_out[i]) {
      kept.push_back(std::move(arguments[i]));
    } else if (!info.functional) {
      kept.push_back(at::empty({0}, at::TensorOptions(device).dtype(arguments[i].toTensor().scalar_type())));
    }
  }
  arguments = std::move(kept);
  return info.functional ? *info.functional : op;
}

namespace {

at::Tensor as_meta(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  std::int64_t last = tensor.storage_offset();
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) {
    last += std::max<std::int64_t>(tensor.size(dim) - 1, 0) * tensor.stride(dim);
  }
  auto meta = at::empty({last + 1}, tensor.options().device(at::kMeta).requires_grad(false))
                  .as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  return meta;
}

void collect(const c10::IValue& value, std::vector<LogicalShape>& shapes) {
  if (value.isTensor()) {
    shapes.push_back(shape_of(value.toTensor()));
  } else if (value.isTensorList()) {
    for (const auto& each : value.toTensorVector()) shapes.push_back(shape_of(each));
  }
}

/// Operators that have no meta kernel. A cache, because each attempt costs milliseconds, for an exception with its
/// backtrace. Thread-safe.
class WithoutMetaKernel {
 public:
  bool has(const OpInfo& info) const {
    const std::lock_guard lock(mutex_);
    return known_.contains(&info);
  }
  void add(const OpInfo& info) {
    const std::lock_guard lock(mutex_);
    known_.insert(&info);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_set<const OpInfo*> known_;
};

WithoutMetaKernel& without_meta_kernel() {
  static WithoutMetaKernel operators;
  return operators;
}

ResultShapes by_meta_kernel(const c10::OperatorHandle& op, const OpInfo& info, torch::jit::Stack arguments) {
  if (without_meta_kernel().has(info)) return {};
  std::vector<at::Tensor> metas;
  for (const auto& each : input_tensors(info, arguments)) metas.push_back(as_meta(each.tensor));
  replace_inputs(info, arguments, metas);
  const auto& called = without_out(op, info, arguments, at::kMeta);
  replace_device(arguments, at::kMeta);
  try {
    called.callBoxed(arguments);
  } catch (const c10::NotImplementedError&) {
    // x[mask] has no meta kernel, but x[numbers] has.
    const bool by_mask = std::any_of(metas.begin(), metas.end(), [](const at::Tensor& each) {
      return each.defined() && (each.scalar_type() == at::kBool || each.scalar_type() == at::kByte);
    });
    if (!by_mask) without_meta_kernel().add(info);
    return {};
  } catch (const c10::Error&) {
    if (info.is_view) throw;  // no attempt on gathered parts: their memory order may allow an invalid view
    return {.known = std::nullopt, .refused = true};
  }
  std::vector<LogicalShape> shapes;
  for (const auto& value : arguments) collect(value, shapes);
  return {.known = std::move(shapes)};
}

/// The likely strides of a result: those of the first input if sizes are equal, else channels_last if any input is.
std::vector<std::int64_t> likely_strides(const std::vector<std::int64_t>& sizes,
                                         const std::vector<at::Tensor>& inputs) {
  const bool alike = !inputs.empty() && inputs.front().sizes() == c10::IntArrayRef(sizes) &&
                     inputs.front().is_non_overlapping_and_dense();
  if (alike) return inputs.front().strides().vec();
  for (const auto& each : inputs) {
    const auto format = each.suggest_memory_format();
    if (format != c10::MemoryFormat::Contiguous) return strides_in(format, sizes);
  }
  return row_major_strides(sizes);
}

ResultShapes by_rule(const OpCall& call, const Rule* rule, const std::vector<at::Tensor>& inputs) {
  if (!rule || !rule->shapes) return {};
  const auto dtype = inputs.empty() ? c10::ScalarType::Float : inputs.front().scalar_type();
  std::vector<LogicalShape> shapes;
  for (auto& sizes : rule->shapes(call)) {
    auto strides = likely_strides(sizes, inputs);
    shapes.push_back({.sizes = std::move(sizes), .strides = std::move(strides), .dtype = dtype});
  }
  return {.known = std::move(shapes)};
}

std::vector<at::Tensor> given(const OpInfo& info, const torch::jit::Stack& arguments) {
  std::vector<at::Tensor> tensors;
  for (auto& each : input_tensors(info, arguments)) {
    if (each.tensor.defined()) tensors.push_back(std::move(each.tensor));
  }
  return tensors;
}

}  // namespace

LogicalShape shape_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {.sizes = tensor.sizes().vec(),
          .strides = tensor.strides().vec(),
          .dtype = tensor.scalar_type(),
          .offset = tensor.storage_offset()};
}

void replace_device(torch::jit::Stack& arguments, c10::Device device) {
  for (auto& value : arguments) {
    if (value.isDevice() && value.toDevice().type() == kDeviceType) value = device;
  }
}

ResultShapes result_shapes(const c10::OperatorHandle& op, const OpInfo& info, const torch::jit::Stack& arguments,
                           const OpCall& call, const Rule* rule) {
  auto shapes = by_meta_kernel(op, info, arguments);
  return shapes.known || shapes.refused ? shapes : by_rule(call, rule, given(info, arguments));
}

}  // namespace lockstep::global
