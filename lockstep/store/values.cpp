// A hash map with c10d's operations (set, get, compare_set, add, wait, ...), and the waits that a new key ends.
#include <lockstep/base/text.h>
#include <lockstep/store/values.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

namespace lockstep::store {
namespace {

std::string done(std::uint64_t request) { return answer_to(request, Status::done).message(); }
std::string done(std::uint64_t request, std::uint64_t number) {
  return answer_to(request, Status::done).number(number).message();
}
std::string done(std::uint64_t request, std::string_view value) {
  return answer_to(request, Status::done).text(value).message();
}
std::string refused(std::uint64_t request, std::string_view why) {
  return answer_to(request, Status::refused).text(why).message();
}

std::vector<std::string> read_keys(MessageReader& fields) {
  std::vector<std::string> keys;
  // If the number is too large, key() throws at the end of the message.
  for (auto left = fields.number(); left > 0; --left) keys.push_back(fields.key());
  return keys;
}

std::optional<std::int64_t> sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

}  // namespace

std::vector<Answer> Values::request(std::uint64_t connection, std::string_view body) {
  Answers answers;
  MessageReader fields(body);
  const auto number = fields.number();
  const auto operation = static_cast<Operation>(fields.number());
  const Asker asker(connection, number);
  const auto say = [&](std::string message) { answers.push_back({connection, std::move(message)}); };
  switch (operation) {
    case Operation::set: {
      const auto key = fields.key();
      std::string value(fields.text());
      say(done(number));
      put(key, std::move(value), answers);
      break;
    }
    case Operation::get: {
      begin_wait(asker, {{fields.key()}, 0, true}, answers);
      break;
    }
    case Operation::compare_set: compare_set(asker, fields, answers); break;
    case Operation::add: add(asker, fields, answers); break;
    case Operation::remove: say(done(number, values_.erase(fields.key()))); break;
    case Operation::check: say(done(number, has_all(read_keys(fields)) ? 1 : 0)); break;
    case Operation::wait: begin_wait(asker, {read_keys(fields), 0, false}, answers); break;
    case Operation::count: say(done(number, values_.size())); break;
    case Operation::cancel: cancel({connection, fields.number()}); break;
    default: throw BadMessage(fmt::format("there is no operation {}", static_cast<std::uint64_t>(operation)));
  }
  fields.expect_end();
  return answers;
}

void Values::forget(std::uint64_t connection) {
  for (auto wait = waits_.lower_bound({connection, 0}); wait != waits_.end() && wait->first.first == connection;) {
    const Asker asker = wait->first;
    ++wait;
    cancel(asker);
  }
}

void Values::put(const std::string& key, std::string value, Answers& answers) {
  values_[key] = std::move(value);
  const auto found = waiting_for_.find(key);
  if (found == waiting_for_.end()) return;
  const auto askers = std::move(found->second);
  waiting_for_.erase(found);
  for (const auto& asker : askers) go_on(asker, answers);
}

void Values::add(const Asker& asker, MessageReader& fields, Answers& answers) {
  const auto key = fields.key();
  const auto delta = static_cast<std::int64_t>(fields.number());
  const auto found = values_.find(key);
  const auto before = found == values_.end() ? std::optional<std::int64_t>(0) : parse_integer(found->second);
  const auto after = before ? sum(*before, delta) : std::nullopt;
  if (!after) {
    answers.push_back(
        {asker.first,
         refused(asker.second,
                 fmt::format("the value of key '{}' is not a number to which {} can be added", key, delta))});
    return;
  }
  answers.push_back({asker.first, done(asker.second, static_cast<std::uint64_t>(*after))});
  put(key, std::to_string(*after), answers);
}

// The semantics of c10d: the answer is the value afterwards; if the key does not exist and `expected` is not empty, the
// answer is `expected`.
void Values::compare_set(const Asker& asker, MessageReader& fields, Answers& answers) {
  const auto key = fields.key();
  const auto expected = fields.text();
  const auto desired = fields.text();
  const auto found = values_.find(key);
  const bool fits = found == values_.end() ? expected.empty() : found->second == expected;
  const std::string_view other = found == values_.end() ? expected : std::string_view(found->second);
  answers.push_back({asker.first, done(asker.second, fits ? desired : other)});
  if (fits) put(key, std::string(desired), answers);
}

void Values::begin_wait(const Asker& asker, Wait wait, Answers& answers) {
  if (!waits_.emplace(asker, std::move(wait)).second) throw BadMessage("two requests have the same number");
  go_on(asker, answers);
}

void Values::go_on(const Asker& asker, Answers& answers) {
  const auto found = waits_.find(asker);
  Wait& wait = found->second;
  for (; wait.next < wait.keys.size(); ++wait.next) {
    const auto& key = wait.keys[wait.next];
    if (values_.contains(key)) continue;
    waiting_for_[key].push_back(asker);
    return;
  }
  const auto& [connection, number] = asker;
  answers.push_back({connection, wait.wants_value ? done(number, values_.at(wait.keys.front())) : done(number)});
  waits_.erase(found);
}

void Values::cancel(const Asker& asker) {
  const auto found = waits_.find(asker);
  if (found == waits_.end()) return;  // the request has been answered already
  const auto there = waiting_for_.find(found->second.keys[found->second.next]);
  std::erase(there->second, asker);
  if (there->second.empty()) waiting_for_.erase(there);
  waits_.erase(found);
}

bool Values::has_all(const std::vector<std::string>& keys) const {
  return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) { return values_.contains(key); });
}

}  // namespace lockstep::store
