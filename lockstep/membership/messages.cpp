// The scheduler's JSON messages: each lists its fields once, for a reader with limits and for a writer.
#include <lockstep/base/error.h>
#include <lockstep/membership/messages.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::membership {
namespace {

using nlohmann::json;

template <typename Fields>
void describe(Fields& f, Hello& m) {
  f.number("protocol", m.protocol, 1, std::numeric_limits<int>::max());
  f.name("job", m.job);
  f.name("nonce", m.nonce);
  f.truth("secret", m.secret);
  f.flag("watched", m.watched);
}
template <typename Fields>
void describe(Fields& f, Wait& m) {
  f.number("present", m.present, 0, kMostWorkers);
  f.number("wanted", m.wanted, 1, kMostWorkers);
  f.text("reason", m.reason);
}
template <typename Fields>
void describe(Fields& f, Refused& m) {
  f.text("reason", m.reason);
}
template <typename Fields>
void describe(Fields& f, RankAssignment& m) {
  f.number("generation", m.generation, std::int64_t{1}, std::numeric_limits<std::int64_t>::max());
  f.number("size", m.size, 1, kMostWorkers);
  f.number("rank", m.rank, 0, m.size - 1);
  f.number("local_size", m.local_size, 1, m.size);
  f.number("local_rank", m.local_rank, 0, m.local_size - 1);
  f.name("store_key", m.store_key);
  f.name("proof", m.proof);
}
template <typename Fields>
void describe(Fields& f, StoreAt& m) {
  f.number("generation", m.generation, std::int64_t{1}, std::numeric_limits<std::int64_t>::max());
  f.name("host", m.host);
  f.number("port", m.port, 1, 65535);
}
template <typename Fields>
void describe(Fields& f, Lost& m) {
  f.number("generation", m.generation, std::int64_t{1}, std::numeric_limits<std::int64_t>::max());
  f.name("node_id", m.node_id);
  f.number("rank", m.rank, 0, kMostWorkers);
  f.text("reason", m.reason);
  f.truth("certain", m.certain);
}
template <typename Fields>
void describe(Fields&, Ping&) {}
template <typename Fields>
void describe(Fields& f, Ended& m) {
  f.truth("ok", m.ok);
  f.text("reason", m.reason);
  f.flag("hangs", m.hangs);
}
template <typename Fields>
void describe(Fields& f, Register& m) {
  f.number("protocol", m.protocol, 1, std::numeric_limits<int>::max());
  f.name("node_id", m.node_id);
  f.truth("named", m.named);
  f.name("life", m.life);
  f.name("host", m.host);
  f.name("machine", m.machine);
  f.number("pid", m.pid, std::int64_t{0}, std::numeric_limits<std::int64_t>::max());
  f.flag("server", m.server);
  f.maybe("servers", m.servers, 0, kMostWorkers);
  f.name("job", m.job);
  f.number("generation", m.generation, std::int64_t{0}, std::numeric_limits<std::int64_t>::max());
  f.maybe("rank", m.rank, 0, kMostWorkers);
  f.maybe_name("store_key", m.store_key);
  f.maybe("turn", m.turn, 0, std::numeric_limits<int>::max());
  f.name("nonce", m.nonce);
  f.name("proof", m.proof);
}

// ---- the page of a worker, in its heartbeats

constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kLongestList = 32;

template <typename Fields, typename Duration>
void describe_duration(Fields& f, const char* key, Duration& value) {
  std::int64_t ticks = value.count();
  f.number(key, ticks, std::int64_t{0}, kMost);
  value = Duration(ticks);
}
template <typename Fields>
void describe(Fields& f, CollectiveMark& m) {
  f.text("op", m.op);
  f.number("number", m.number, std::uint64_t{0}, static_cast<std::uint64_t>(kMost));
  f.text("group", m.group);
}
template <typename Fields>
void describe(Fields& f, MetricValue& m) {
  f.text("name", m.name);
  f.number("step", m.step, std::int64_t{0}, kMost);
  f.real("value", m.value);
}
template <typename Fields>
void describe(Fields& f, RankProgress& m) {
  f.maybe("step", m.step, std::int64_t{0}, kMost);
  f.number("backwards", m.backwards, std::int64_t{0}, kMost);
  f.object("begun", m.begun);
  f.object("ended", m.ended);
  describe_duration(f, "since_begun_ms", m.since_begun);
}
// Another version may have more parts of the time, or fewer.
template <typename Fields>
void describe(Fields& f, TrainingProgress& m) {
  f.maybe("total_steps", m.total_steps, std::int64_t{0}, kMost);
  f.maybe("epoch", m.epoch, std::int64_t{0}, kMost);
  f.maybe("saved_step", m.saved_step, std::int64_t{0}, kMost);
  f.number("samples", m.samples, std::int64_t{0}, kMost);
  describe_duration(f, "blocked_ns", m.blocked);
  auto doing = m.doing ? std::optional(static_cast<int>(*m.doing)) : std::nullopt;
  f.maybe("doing", doing, 0, std::numeric_limits<int>::max());
  const bool is_known = doing && *doing < static_cast<int>(kTimeParts.size());
  m.doing = is_known ? std::optional(static_cast<TimePart>(*doing)) : std::nullopt;
  std::vector<std::int64_t> times;
  for (const auto& time : m.times) times.push_back(time.count());
  f.numbers("times_ns", times, std::int64_t{0}, kMost);
  for (std::size_t i = 0; i < std::min(times.size(), m.times.size()); ++i)
    m.times[i] = std::chrono::nanoseconds(times[i]);
  f.objects("metrics", m.metrics);
  f.text("work_dir", m.work_dir);
  f.flag("serves", m.serves);
}
template <typename Fields>
void describe(Fields& f, PageContent& m) {
  describe(f, m.progress);
  describe(f, m.training);
}

template <typename Fields>
void describe(Fields& f, Heartbeat& m) {
  f.maybe("step", m.step, std::int64_t{0}, kMost);
  f.maybe("step_us", m.step_us, std::int64_t{0}, kMost);
  f.maybe("own_us", m.own_us, std::int64_t{0}, kMost);
  f.object("page", m.page);
  f.maybe("memory", m.memory, std::int64_t{0}, kMost);
}
template <typename Fields>
void describe(Fields& f, Again& m) {
  f.number("generation", m.generation, std::int64_t{1}, std::numeric_limits<std::int64_t>::max());
  f.text("reason", m.reason);
}
template <typename Fields>
void describe(Fields& f, Leave& m) {
  f.truth("ok", m.ok);
  f.text("error", m.error);
}

template <typename T>
constexpr const char* type_of() {
  if constexpr (std::is_same_v<T, Hello>) return "hello";
  if constexpr (std::is_same_v<T, Wait>) return "wait";
  if constexpr (std::is_same_v<T, Refused>) return "refused";
  if constexpr (std::is_same_v<T, RankAssignment>) return "assigned";
  if constexpr (std::is_same_v<T, StoreAt>) return "store_at";
  if constexpr (std::is_same_v<T, Lost>) return "lost";
  if constexpr (std::is_same_v<T, Ping>) return "ping";
  if constexpr (std::is_same_v<T, Ended>) return "ended";
  if constexpr (std::is_same_v<T, Register>) return "register";
  if constexpr (std::is_same_v<T, Heartbeat>) return "heartbeat";
  if constexpr (std::is_same_v<T, Again>) return "again";
  if constexpr (std::is_same_v<T, Leave>) return "leave";
}

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::data, "message", format, std::forward<Args>(args)...);
}

bool is_printable(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

// Names appear in log lines and file names: no line breaks, no escape sequences.
class Reader {
 public:
  explicit Reader(const json& object) : object_(object) {}

  template <typename Int>
  void number(const char* key, Int& value, Int low, Int high) {
    value = static_cast<Int>(integer(key, field(key), static_cast<std::int64_t>(low), static_cast<std::int64_t>(high)));
  }
  template <typename Int>
  void maybe(const char* key, std::optional<Int>& value, Int low, Int high) {
    value.reset();
    const auto found = object_.find(key);
    if (found != object_.end() && !found->is_null()) number(key, value.emplace(), low, high);
  }
  void truth(const char* key, bool& value) {
    const json& found = field(key);
    if (!found.is_boolean()) refuse("{} is neither true nor false", key);
    value = found.get<bool>();
  }
  // False where the field is absent.
  void flag(const char* key, bool& value) {
    value = false;
    if (object_.contains(key)) truth(key, value);
  }
  void name(const char* key, std::string& value) {
    read_text(key, value, kLongestName);
    if (!is_printable(value)) refuse("{} has characters that cannot be printed", key);
  }
  // Empty where the field is absent.
  void maybe_name(const char* key, std::string& value) {
    value.clear();
    if (object_.contains(key)) name(key, value);
  }
  void text(const char* key, std::string& value) { read_text(key, value, kLongestText); }
  // JSON has no numbers that are not finite.
  void real(const char* key, double& value) {
    const json& found = field(key);
    if (!found.is_number() && !found.is_null()) refuse("{} is no number", key);
    value = found.is_null() ? std::numeric_limits<double>::quiet_NaN() : found.get<double>();
  }
  template <typename T>
  void object(const char* key, std::optional<T>& value) {
    value.reset();
    const auto found = object_.find(key);
    if (found == object_.end() || found->is_null()) return;
    read_object(key, *found, value.emplace());
  }
  template <typename T>
  void objects(const char* key, std::vector<T>& values) {
    values.clear();
    for (const json& each : list(key)) read_object(key, each, values.emplace_back());
  }
  void numbers(const char* key, std::vector<std::int64_t>& values, std::int64_t low, std::int64_t high) {
    values.clear();
    for (const json& each : list(key)) values.push_back(integer(key, each, low, high));
  }

 private:
  const json& list(const char* key) const {
    const json& found = field(key);
    if (!found.is_array() || found.size() > kLongestList) refuse("{} is no list of up to {} values", key, kLongestList);
    return found;
  }
  template <typename T>
  static void read_object(const char* key, const json& object, T& value) {
    if (!object.is_object()) refuse("{} is no object", key);
    Reader reader(object);
    describe(reader, value);
  }
  static std::int64_t integer(const char* key, const json& found, std::int64_t low, std::int64_t high) {
    if (!found.is_number_integer()) refuse("{} is no integer", key);
    const bool huge =
        found.is_number_unsigned() && found.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max();
    const auto number = huge ? -1 : found.get<std::int64_t>();
    if (huge || number < low || number > high) refuse("{} is not from {} to {}", key, low, high);
    return number;
  }
  const json& field(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) refuse("{} is missing", key);
    return *found;
  }
  void read_text(const char* key, std::string& value, std::size_t longest) {
    const json& found = field(key);
    if (!found.is_string()) refuse("{} is no text", key);
    value = found.get<std::string>();
    if (value.size() > longest) refuse("{} has {} bytes, more than {}", key, value.size(), longest);
  }
  const json& object_;
};

class Writer {
 public:
  explicit Writer(json& object) : object_(object) {}

  template <typename Int>
  void number(const char* key, Int& value, Int /*low*/, Int /*high*/) {
    object_[key] = value;
  }
  template <typename Int>
  void maybe(const char* key, std::optional<Int>& value, Int /*low*/, Int /*high*/) {
    if (value) object_[key] = *value;
  }
  void truth(const char* key, bool& value) { object_[key] = value; }
  void flag(const char* key, bool& value) {
    if (value) object_[key] = true;
  }
  void name(const char* key, std::string& value) { object_[key] = value.substr(0, kLongestName); }
  void maybe_name(const char* key, std::string& value) {
    if (!value.empty()) name(key, value);
  }
  // Invalid UTF-8 bytes grow threefold when they are replaced.
  void text(const char* key, std::string& value) { object_[key] = value.substr(0, kLongestText / 3); }
  void real(const char* key, double& value) { object_[key] = value; }
  template <typename T>
  void object(const char* key, std::optional<T>& value) {
    if (value) object_[key] = written(*value);
  }
  template <typename T>
  void objects(const char* key, std::vector<T>& values) {
    json& list = object_[key] = json::array();
    for (auto& each : values) list.push_back(written(each));
  }
  void numbers(const char* key, std::vector<std::int64_t>& values, std::int64_t /*low*/, std::int64_t /*high*/) {
    object_[key] = values;
  }

 private:
  template <typename T>
  static json written(T& value) {
    json object = json::object();
    Writer writer(object);
    describe(writer, value);
    return object;
  }
  json& object_;
};

json parse_object(std::string_view text) {
  if (text.size() > kLongestMessage) refuse("{} bytes are more than {}", text.size(), kLongestMessage);
  json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) refuse("it is not JSON");
  if (!object.is_object()) refuse("it is not a JSON object");
  const auto type = object.find("type");
  if (type == object.end() || !type->is_string()) refuse("it has no type");
  return object;
}

template <typename Variant, typename T, typename... Others>
Variant read_as(const std::string& type, const json& object) {
  if (type == type_of<T>()) {
    T message;
    Reader reader(object);
    describe(reader, message);
    return message;
  }
  if constexpr (sizeof...(Others) > 0) return read_as<Variant, Others...>(type, object);
  refuse("its type is unknown");
}

template <typename... Ts>
std::variant<Ts...> read(std::string_view text, std::variant<Ts...>* /*which*/) {
  const json object = parse_object(text);
  return read_as<std::variant<Ts...>, Ts...>(object["type"].template get<std::string>(), object);
}

template <typename Variant>
std::string write(const Variant& message) {
  json object = json::object();
  std::visit(
      [&](auto copy) {
        object["type"] = type_of<decltype(copy)>();
        Writer writer(object);
        describe(writer, copy);
      },
      message);
  return object.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
}

}  // namespace

FromScheduler parse_from_scheduler(std::string_view text) { return read(text, static_cast<FromScheduler*>(nullptr)); }
FromWorker parse_from_worker(std::string_view text) { return read(text, static_cast<FromWorker*>(nullptr)); }
std::string print(const FromScheduler& message) { return write(message); }
std::string print(const FromWorker& message) { return write(message); }

}  // namespace lockstep::membership
