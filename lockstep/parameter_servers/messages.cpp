// Runs of rows cut into pieces with two buffers, so that a piece is in transfer while the other is filled or read.
#include <lockstep/base/error.h>
#include <lockstep/parameter_servers/messages.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace lockstep::parameter_servers {
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

/// As Work::wait, which waits no longer than the timeout of the group: so it waits again until `limit` is near.
void wait_for(Work& work, const Group& pair, std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const auto most = pair.timeout();
  const auto slice = most / 2;
  const auto last = Clock::now() + (limit - most);
  while (Clock::now() < last) {
    const auto begin = Clock::now();
    try {
      return work.wait(slice);
    } catch (const Error& error) {
      // Otherwise the group has failed, and its timeout reports this.
      if (error.kind() != ErrorKind::timeout || Clock::now() - begin < slice) break;
    }
  }
  work.wait(most);
}

std::size_t rows_of_piece(std::size_t dim) { return std::max<std::size_t>(1, kNumbersOfPiece / dim); }

/// Takes the piece at `next` from the runs; false when no piece is left.
template <typename Run>
bool take_piece(const std::vector<Run>& runs, RowsPiece& next, RowsPiece& piece) {
  while (next.run < runs.size() && next.first == runs[next.run].rows) next = {.run = next.run + 1};
  if (next.run == runs.size()) return false;
  const auto& run = runs[next.run];
  piece = next;
  piece.count = std::min(rows_of_piece(run.dim), run.rows - next.first);
  next.first += piece.count;
  return true;
}

}  // namespace

std::chrono::milliseconds limit_of_answer(std::chrono::milliseconds limit) { return limit + limit / 4; }
std::chrono::milliseconds limit_of_message(std::chrono::milliseconds limit) { return limit + limit / 2; }

Work send_numbers(std::span<const std::int64_t> numbers, const Group& pair) { return send_span(numbers, pair); }
Work send_numbers(std::span<const float> numbers, const Group& pair) { return send_span(numbers, pair); }

void receive_numbers(std::span<std::int64_t> numbers, const Group& pair, std::chrono::milliseconds limit) {
  if (numbers.empty()) return;
  auto tensor = tensor_over<std::int64_t>(numbers.data(), numbers.size());
  auto work = receive_async(tensor, pair, other_of(pair));
  wait_for(work, pair, limit);
}

RowSender::RowSender(Group pair, std::vector<RowsToSend> runs, std::chrono::milliseconds limit)
    : pair_(std::move(pair)), runs_(std::move(runs)), limit_(limit) {}

bool RowSender::send_piece() {
  RowsPiece piece;
  if (!take_piece(runs_, next_, piece)) return false;
  const auto& run = runs_[piece.run];
  auto& work = works_.at(turn_);
  wait_for(work, pair_, limit_);  // its buffer is needed again
  const auto numbers = piece.count * run.dim;
  const float* from = run.memory + (run.memory == nullptr ? 0 : piece.first * run.dim);
  if (run.memory == nullptr) {
    auto& buffer = buffers_.at(turn_);
    if (buffer.size() < numbers) buffer.resize(numbers);
    run.fill(piece.first, piece.count, buffer.data());
    from = buffer.data();
  }
  work = send_numbers(std::span<const float>(from, numbers), pair_);
  turn_ = 1 - turn_;
  return true;
}

void RowSender::wait() {
  for (auto& work : works_) wait_for(work, pair_, limit_);
}

RowReceiver::RowReceiver(Group pair, std::vector<RowsToReceive> runs, std::chrono::milliseconds limit)
    : pair_(std::move(pair)), runs_(std::move(runs)), limit_(limit) {
  ask();
}

void RowReceiver::ask() {
  const auto turn = asked_ % 2;
  auto& [piece, work] = expected_.at(turn);
  if (!take_piece(runs_, next_, piece)) return;
  const auto& run = runs_[piece.run];
  const auto numbers = piece.count * run.dim;
  float* into = run.memory + (run.memory == nullptr ? 0 : piece.first * run.dim);
  if (run.memory == nullptr) {
    auto& buffer = buffers_.at(turn);
    if (buffer.size() < numbers) buffer.resize(numbers);
    into = buffer.data();
  }
  auto tensor = tensor_over<float>(into, numbers);
  work = receive_async(tensor, pair_, other_of(pair_));
  ++asked_;
}

bool RowReceiver::receive_piece() {
  if (received_ == asked_) return false;
  const auto turn = received_ % 2;
  auto& [piece, work] = expected_.at(turn);
  ask();  // the next piece is in transfer while this one is read
  wait_for(work, pair_, limit_);
  ++received_;
  const auto& run = runs_[piece.run];
  if (run.memory == nullptr) run.take(piece.first, piece.count, buffers_.at(turn).data());
  return true;
}

}  // namespace lockstep::parameter_servers
