#include "chaos/order.h"

#include <lockstep/base/error.h>
#include <lockstep/base/text.h>

namespace lockstep::test {
namespace {

int number(const std::string& text, int low, int high, const char* what) {
  const auto value = parse_integer(text);
  if (!value || *value < low || *value > high) {
    fail(ErrorKind::invalid_argument, "chaos", "{} must be from {} to {}, not '{}'", what, low, high, text);
  }
  return static_cast<int>(*value);
}

}  // namespace

Order parse_order(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.size() > 3) {
    fail(ErrorKind::invalid_argument, "chaos", "usage: chaos SEED [SECONDS [WORKERS]]");
  }
  Order order;
  order.seed = static_cast<std::uint64_t>(number(arguments[0], 0, 1'000'000'000, "SEED"));
  if (arguments.size() > 1) order.seconds = number(arguments[1], 1, 100'000, "SECONDS");
  if (arguments.size() > 2) order.workers = number(arguments[2], 2, 20, "WORKERS");
  return order;
}

}  // namespace lockstep::test
