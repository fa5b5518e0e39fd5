#include <lockstep/servers/messages.h>

#include <ATen/ATen.h>

namespace lockstep::servers {
namespace {

template <typename Number>
constexpr at::ScalarType kType = std::is_same_v<Number, float> ? at::kFloat : at::kLong;

template <typename Number>
at::Tensor tensor_over(const Number* numbers, std::size_t count) {
  return at::from_blob(const_cast<Number*>(numbers), {static_cast<std::int64_t>(count)}, at::dtype(kType<Number>));
}

int other_of(const Group& pair) { return 1 - pair.rank(); }

template <typename Number>
Work send_span(std::span<const Number> numbers, const Group& pair) {
  if (numbers.empty()) return {};
  return send_async(tensor_over(numbers.data(), numbers.size()), pair, other_of(pair));
}

template <typename Number>
void receive_span(std::span<Number> numbers, const Group& pair, std::chrono::milliseconds limit) {
  if (numbers.empty()) return;
  auto tensor = tensor_over<Number>(numbers.data(), numbers.size());
  receive_async(tensor, pair, other_of(pair)).wait(limit);
}

}  // namespace

Work send_numbers(std::span<const std::int64_t> numbers, const Group& pair) { return send_span(numbers, pair); }
Work send_numbers(std::span<const float> numbers, const Group& pair) { return send_span(numbers, pair); }

void receive_numbers(std::span<std::int64_t> numbers, const Group& pair, std::chrono::milliseconds limit) {
  receive_span(numbers, pair, limit);
}
void receive_numbers(std::span<float> numbers, const Group& pair, std::chrono::milliseconds limit) {
  receive_span(numbers, pair, limit);
}

}  // namespace lockstep::servers
