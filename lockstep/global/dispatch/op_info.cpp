// The schema of an operator, read once: written arguments, views, out variants. The cache has a part for each thread.
#include <lockstep/global/dispatch/op_info.h>

#include <lockstep/global/rules/signature.h>
#include <lockstep/global/tensor_state.h>

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace lockstep::global {
namespace {

std::string base_name(const std::string& full, bool in_place) {
  const auto colons = full.rfind("::");
  std::string name = colons == std::string::npos ? full : full.substr(colons + 2);
  if (in_place && name.ends_with('_') && !name.ends_with("__")) name.pop_back();
  return name;
}

bool writes(const c10::AliasInfo* alias) { return alias && alias->isWrite(); }

/// Arguments that an operator writes although its schema does not declare it. (Batch norms, which write to their
/// running statistics, have a local form for that.)
bool writes_unsaid(std::string_view op, const std::string& argument) {
  return op == "rrelu_with_noise" && argument == "noise";
}

bool comes_back(const c10::FunctionSchema& schema, const c10::AliasInfo& written) {
  return std::any_of(schema.returns().begin(), schema.returns().end(), [&](const c10::Argument& result) {
    return writes(result.alias_info()) && result.alias_info()->beforeSets() == written.beforeSets();
  });
}

OpInfo read(const c10::FunctionSchema& schema) {
  OpInfo info;
  info.shown = schema.overload_name().empty() ? schema.name() : schema.name() + "." + schema.overload_name();
  info.overload = schema.overload_name();
  const auto& arguments = schema.arguments();
  info.arguments = arguments.size();
  info.is_out.resize(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto* alias = arguments[i].alias_info();
    if (!writes(alias)) continue;
    if (arguments[i].kwarg_only()) {
      info.is_out[i] = true;
      info.has_out = true;
      if (!comes_back(schema, *alias) || arguments[i].type()->kind() != c10::TypeKind::TensorType)
        info.loses_writes = true;
    } else if (i == 0 && comes_back(schema, *alias) && arguments[i].type()->kind() == c10::TypeKind::TensorType) {
      info.written_self = i;
    } else {
      info.written_beside.push_back(i);
    }
  }
  info.name = base_name(schema.name(), !arguments.empty() && writes(arguments[0].alias_info()));
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (writes_unsaid(info.name, arguments[i].name())) info.written_beside.push_back(i);
  }
  if (const Rule* rule = find_rule(info.name); rule != nullptr && rule->has_lengths) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].name().ends_with("_lengths")) info.lengths.push_back(i);
    }
  }
  info.makes_unwritten = info.name.starts_with("empty") || info.name.starts_with("new_empty");
  info.may_cross = info.name == "copy" || info.name == "_to_copy";
  static constexpr std::array kReshaping{"t", "transpose", "squeeze", "unsqueeze", "as_strided", "resize", "resize_as"};
  info.reshapes_self =
      info.written_self && std::find(kReshaping.begin(), kReshaping.end(), info.name) != kReshaping.end();
  for (const auto& result : schema.returns()) {
    std::optional<std::size_t> back;
    if (writes(result.alias_info())) {
      for (std::size_t i = 0; i < arguments.size() && !back; ++i) {
        const auto* alias = arguments[i].alias_info();
        if (writes(alias) && alias->beforeSets() == result.alias_info()->beforeSets()) back = i;
      }
    } else if (result.alias_info()) {
      info.is_view = true;
    }
    info.returned_argument.push_back(back);
  }
  return info;
}

/// The operator of the same name with the same arguments except `out`.
std::optional<c10::OperatorHandle> functional_variant(const c10::FunctionSchema& schema,
                                                      const std::vector<bool>& is_out) {
  auto& dispatcher = c10::Dispatcher::singleton();
  std::vector<c10::Argument> wanted;
  for (std::size_t i = 0; i < is_out.size(); ++i) {
    if (!is_out[i]) wanted.push_back(schema.arguments()[i]);
  }
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.name != schema.name()) continue;
    auto op = dispatcher.findSchema(name);
    if (!op || op->schema().arguments().size() != wanted.size()) continue;
    const auto& arguments = op->schema().arguments();
    const bool same =
        std::equal(wanted.begin(), wanted.end(), arguments.begin(), [](const c10::Argument& a, const c10::Argument& b) {
          return a.name() == b.name() && *a.type() == *b.type() && !writes(b.alias_info());
        });
    if (same) return *op;
  }
  return std::nullopt;
}

const OpInfo& shared_info(const c10::FunctionSchema* schema) {
  static std::mutex mutex;
  static std::unordered_map<const c10::FunctionSchema*, std::unique_ptr<OpInfo>> known;
  const std::lock_guard lock(mutex);
  auto& info = known[schema];
  if (!info) {
    info = std::make_unique<OpInfo>(read(*schema));
    if (info->has_out) info->functional = functional_variant(*schema, info->is_out);
  }
  return *info;
}

/// A cache of this thread's last lookup, which avoids the lock.
struct Lately {
  const c10::FunctionSchema* schema = nullptr;
  const OpInfo* info = nullptr;
};
constexpr std::size_t kLately = 256;

}  // namespace

const OpInfo& op_info(const c10::OperatorHandle& op) {
  thread_local std::array<Lately, kLately> lately{};
  const auto* schema = &op.schema();
  auto& place = lately[(reinterpret_cast<std::uintptr_t>(schema) / alignof(c10::FunctionSchema)) % kLately];
  if (place.schema != schema) place = {.schema = schema, .info = &shared_info(schema)};
  return *place.info;
}

namespace {

Argument read_argument(const c10::IValue& value, std::size_t first_tensor, std::size_t tensors) {
  if (value.isNone()) return std::monostate();
  if (value.isTensor()) return TensorAt{first_tensor};
  if (tensors > 0 || value.isTensorList()) return TensorsAt{.first = first_tensor, .count = tensors};
  if (value.isInt()) return value.toInt();
  if (value.isBool()) return value.toBool();
  if (value.isString()) return value.toStringRef();
  if (value.isIntList()) return value.toIntVector();
  if (value.isBoolList()) {
    Sizes flags;
    for (const bool each : value.toBoolList()) flags.push_back(each ? 1 : 0);
    return flags;
  }
  return AnyNumber();
}

}  // namespace

TensorInfo tensor_info(std::vector<std::int64_t> sizes, c10::ScalarType dtype) {
  return {.sizes = std::move(sizes),
          .element_bytes = static_cast<int>(c10::elementSize(dtype)),
          .floating = c10::isFloatingType(dtype),
          .complex = c10::isComplexType(dtype),
          .truth = dtype == c10::ScalarType::Bool,
          .defined = true};
}

TensorInfo tensor_info(const at::Tensor& tensor) {
  if (!tensor.defined()) return {.sizes = {}, .defined = false};
  auto info = tensor_info(tensor.sizes().vec(), tensor.scalar_type());
  info.strides = tensor.strides().vec();
  info.offset = tensor.storage_offset();
  info.ordinary = !is_global(tensor);
  return info;
}

TensorInfo tensor_info(const LogicalShape& shape) {
  auto info = tensor_info(shape.sizes, shape.dtype);
  info.strides = shape.strides;
  info.offset = shape.offset;
  return info;
}

OpCall read_call(const c10::OperatorHandle& op, const OpInfo& info, const torch::jit::Stack& arguments) {
  OpCall call;
  call.name = info.name;
  call.overload = info.overload;
  call.in_place = info.written_self.has_value();
  const auto tensors = input_tensors(info, arguments);
  for (const auto& each : tensors) call.tensors.push_back(tensor_info(each.tensor));
  std::size_t next = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (info.is_out[i]) continue;
    const std::size_t first = next;
    while (next < tensors.size() && tensors[next].position == i) ++next;
    call.arguments.emplace_back(op.schema().arguments()[i].name(), read_argument(arguments[i], first, next - first));
  }
  return call;
}

}  // namespace lockstep::global
