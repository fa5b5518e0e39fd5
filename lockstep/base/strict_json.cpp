// A JSON reader that refuses repeated keys.
#include <lockstep/base/json_words.h>
#include <lockstep/base/strict_json.h>
#include <lockstep/base/text.h>

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace lockstep {
namespace {

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

std::variant<json, std::string> parse_strict_json(std::string_view text, std::size_t deepest) {
  StrictBuilder builder(deepest);
  if (json::sax_parse(text, &builder)) return builder.take();
  return builder.mistake();
}

}  // namespace lockstep
