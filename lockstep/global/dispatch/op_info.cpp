#include <lockstep/global/dispatch/op_info.h>

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

OpInfo read(const c10::FunctionSchema& schema) {
  OpInfo info;
  info.shown = schema.overload_name().empty() ? schema.name() : schema.name() + "." + schema.overload_name();
  info.overload = schema.overload_name();
  const auto& arguments = schema.arguments();
  info.is_out.resize(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!writes(arguments[i].alias_info())) continue;
    if (arguments[i].kwarg_only() || i > 0) {
      info.is_out[i] = true;
    } else {
      info.written_self = i;
    }
  }
  info.name = base_name(schema.name(), info.written_self.has_value());
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

}  // namespace

const OpInfo& op_info(const c10::OperatorHandle& op) {
  static std::mutex mutex;
  static std::unordered_map<const c10::FunctionSchema*, std::unique_ptr<OpInfo>> known;
  const auto* schema = &op.schema();
  const std::lock_guard lock(mutex);
  auto& info = known[schema];
  if (!info) info = std::make_unique<OpInfo>(read(*schema));
  return *info;
}

}  // namespace lockstep::global
