// A reader of JSON that refuses repeated keys, and a translation of nlohmann::json's exceptions, by their numbers,
// into messages for users.
#include <lockstep/base/json.h>
#include <lockstep/base/text.h>

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

std::string_view after(std::string_view text, std::string_view mark) {
  const auto found = text.find(mark);
  return found == std::string_view::npos ? text : text.substr(found + mark.size());
}

std::string_view between(std::string_view text, std::string_view begin, std::string_view end) {
  const auto rest = after(text, begin);
  return rest.substr(0, rest.find(end));
}

// The name of a JSON type in messages.
std::string_view in_words(std::string_view type) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kTypes = {{{"array", "a list"},
                                                                                    {"object", "an object {...}"},
                                                                                    {"string", "a text"},
                                                                                    {"number", "a number"},
                                                                                    {"boolean", "true or false"},
                                                                                    {"null", "null"}}};
  for (const auto& [name, words] : kTypes) {
    if (type == name) return words;
  }
  return type;
}

constexpr std::string_view kPython =
    "; it looks like what Python's str() and print() write: write JSON with json.dumps()";

/// The part of the parser's message that ends with its last input.
bool looks_like_python(std::string_view text) {
  const auto read = after(text, "last read: '");
  const auto token = read.substr(0, read.rfind('\''));
  if (token.ends_with('\'')) return true;
  const bool begins_so = text.find("line 1, column 1:") != std::string_view::npos;  // any word may begin there
  return !begins_so && (token.ends_with('N') || token.ends_with('T') || token.ends_with('F'));
}

using nlohmann::json;

/// Makes a value of the parser's events.
class StrictBuilder final : public json::json_sax_t {
 public:
  explicit StrictBuilder(std::size_t deepest) : deepest_(deepest) {}

  bool null() override { return add(nullptr) != nullptr; }
  bool boolean(bool value) override { return add(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return add(value) != nullptr; }
  bool string(string_t& value) override { return add(std::move(value)) != nullptr; }
  bool binary(binary_t& /*value*/) override { return false; }

  bool start_object(std::size_t /*count*/) override { return open(json::object()); }
  bool start_array(std::size_t /*count*/) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    const auto [place, is_new] = open_.back()->emplace(name, nullptr);
    if (!is_new) mistake_ = fmt::format("has \"{}\" twice", cut_text(name));
    member_ = &place.value();
    return is_new;
  }

  bool parse_error(std::size_t /*at*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    mistake_ = fmt::format("cannot be used: {}", json_mistake(error));
    return false;
  }

  json take() { return std::move(root_); }
  const std::string& mistake() const { return mistake_; }

 private:
  json* add(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    auto& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    *member_ = std::move(value);
    return member_;
  }

  bool open(json value) {
    if (open_.size() == deepest_) {
      mistake_ = fmt::format("is nested deeper than {}", deepest_);
      return false;
    }
    open_.push_back(add(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::size_t deepest_;
  json root_;
  std::vector<json*> open_;
  json* member_ = nullptr;  ///< the member of the innermost object whose value follows
  std::string mistake_;
};

}  // namespace

std::string json_mistake(const nlohmann::json::exception& error) {
  constexpr std::size_t kMost = 300;
  const std::string_view text = after(error.what(), "] ");
  switch (error.id) {
    case 101:
      return fmt::format("it is not valid JSON at {}{}", cut_text(after(text, "parse error at "), kMost),
                         looks_like_python(text) ? kPython : "");
    case 302:
    case 303:
      if (text.find("but is ") == std::string_view::npos)
        return fmt::format("a value must be {}", after(text, "must be "));
      return fmt::format("there is {} where {} should be", in_words(after(text, "but is ")),
                         in_words(between(text, "type must be ", ", but")));
    case 304:
    case 305:
    case 306: return fmt::format("there is {} where an object {{...}} should be", in_words(after(text, " with ")));
    case 403: return fmt::format("it has no \"{}\"", cut_text(between(text, "key '", "' not found")));
    default: return cut_text(text, kMost);
  }
}

std::variant<json, std::string> parse_strict_json(std::string_view text, std::size_t deepest) {
  StrictBuilder builder(deepest);
  if (json::sax_parse(text, &builder)) return builder.take();
  return builder.mistake();
}

}  // namespace lockstep
