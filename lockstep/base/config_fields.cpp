// The constructors of ConfigRule: ranges, choices, lists and other conditions on one field of a configuration; and the
// error of options of another type.
#include <lockstep/base/config.h>

#include <cxxabi.h>

#include <cstdlib>
#include <utility>

namespace lockstep {
namespace {

std::string name_of(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                         &std::free);
  return name ? name.get() : type.name();
}

}  // namespace

void detail::fail_wrong_options(const std::string& part, const std::type_info& given, const std::type_info& read) {
  const auto owner = part.empty() ? std::string("a part") : "the part '" + part + "'";
  if (given == typeid(void)) {
    fail(ErrorKind::invalid_argument, "options",
         "{} has no options, and its functions read a {}; give it PartOptions::of()", owner, name_of(read));
  }
  fail(ErrorKind::invalid_argument, "options",
       "those of {} are a {}, and its functions read a {}; give it a value of that type", owner, name_of(given),
       name_of(read));
}

ConfigRule anything() { return {}; }

ConfigRule at_least(double low) { return {.low = low}; }

ConfigRule above(double low) { return {.low = low, .low_excluded = true}; }

ConfigRule between(double low, double high) { return {.low = low, .high = high}; }

ConfigRule from_to_below(double low, double high) { return {.low = low, .high = high, .high_excluded = true}; }

ConfigRule one_of(std::vector<std::string> choices) { return {.choices = std::move(choices)}; }

ConfigRule hidden() { return {.hidden = true}; }

ConfigRule items(std::size_t count, ConfigRule rule) {
  rule.count = count;
  return rule;
}

ConfigRule ascending(ConfigRule rule) {
  rule.ascending = true;
  return rule;
}

ConfigRule or_default(ConfigRule rule) {
  rule.null_is_default = true;
  return rule;
}

ConfigRule a_path(ConfigRule rule) {
  rule.path = true;
  return rule;
}

ConfigRule required(ConfigRule rule) {
  rule.required = true;
  return rule;
}

}  // namespace lockstep
