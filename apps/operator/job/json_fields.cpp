// Look-ups in JSON objects that give an empty value where a field is missing or of another type; and a printer and a
// strict parser of RFC 3339 times in UTC, with microseconds for Leases.
#include <apps/operator/job/json_fields.h>
#include <lockstep/base/text.h>

#include <fmt/format.h>

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

std::string date_text(Seconds time) {
  using namespace std::chrono;
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), clock.hours().count(),
                     clock.minutes().count(), clock.seconds().count());
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

std::string time_text(Seconds time) { return date_text(time) + "Z"; }

std::string micro_time_text(Time time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const auto micro = std::chrono::duration_cast<std::chrono::microseconds>(time - seconds).count();
  return fmt::format("{}.{:06}Z", date_text(seconds), micro);
}

std::optional<Seconds> parse_time(std::string_view text) {
  using namespace std::chrono;
  constexpr std::string_view kShape = "0000-00-00T00:00:00";
  if (text.size() <= kShape.size() || text.back() != 'Z') return std::nullopt;
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kShape[i] == '0' ? !digit : text[i] != kShape[i]) return std::nullopt;
  }
  const auto fraction = text.substr(kShape.size(), text.size() - kShape.size() - 1);
  if (!fraction.empty() &&
      (fraction.size() < 2 || fraction[0] != '.' || fraction.find_first_not_of("0123456789", 1) != fraction.npos)) {
    return std::nullopt;
  }
  const auto number = [&](std::size_t begin, std::size_t size) {
    return static_cast<int>(*parse_integer(text.substr(begin, size)));
  };
  const year_month_day date(year(number(0, 4)), month(static_cast<unsigned>(number(5, 2))),
                            day(static_cast<unsigned>(number(8, 2))));
  if (!date.ok() || number(11, 2) > 23 || number(14, 2) > 59 || number(17, 2) > 60) return std::nullopt;
  return sys_days(date) + hours(number(11, 2)) + minutes(number(14, 2)) + seconds(number(17, 2));
}

}  // namespace lockstep::kube
