// Look-ups in JSON objects that give an empty value where a field is missing or of another type.
#include <apps/operator/job/json_fields.h>

namespace lockstep::kube {
namespace {

using nlohmann::json;

const json* find_in(const json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

const json* controller_of(const json& object) {
  for (const json& owner : list_at(object_at(object, "metadata"), "ownerReferences")) {
    if (true_at(owner, "controller")) return &owner;
  }
  return nullptr;
}

}  // namespace

std::string text_at(const json& object, std::string_view key) {
  const json* found = find_in(object, key);
  return found != nullptr && found->is_string() ? found->get<std::string>() : "";
}

std::optional<std::int64_t> integer_at(const json& object, std::string_view key) {
  const json* found = find_in(object, key);
  if (found == nullptr || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

bool true_at(const json& object, std::string_view key) {
  const json* found = find_in(object, key);
  return found != nullptr && found->is_boolean() && found->get<bool>();
}

const json& object_at(const json& object, std::string_view key) {
  static const json kNone = json::object();
  const json* found = find_in(object, key);
  return found != nullptr && found->is_object() ? *found : kNone;
}

const json& list_at(const json& object, std::string_view key) {
  static const json kNone = json::array();
  const json* found = find_in(object, key);
  return found != nullptr && found->is_array() ? *found : kNone;
}

std::string name_of(const json& object) { return text_at(object_at(object, "metadata"), "name"); }
std::string space_of(const json& object) { return text_at(object_at(object, "metadata"), "namespace"); }
std::string uid_of(const json& object) { return text_at(object_at(object, "metadata"), "uid"); }
std::string version_of(const json& object) { return text_at(object_at(object, "metadata"), "resourceVersion"); }

std::string label_of(const json& object, std::string_view key) {
  return text_at(object_at(object_at(object, "metadata"), "labels"), key);
}

std::string controller_uid(const json& object) {
  const json* owner = controller_of(object);
  return owner == nullptr ? "" : text_at(*owner, "uid");
}

std::string controller_kind(const json& object) {
  const json* owner = controller_of(object);
  return owner == nullptr ? "" : text_at(*owner, "kind");
}

}  // namespace lockstep::kube
