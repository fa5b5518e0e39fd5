// Numbers and rows as messages between two ranks of a group of two: a worker and a parameter server.
#pragma once

#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace lockstep::parameter_servers {

/// The memory must stay until the Work is complete. Nothing is sent where there are no numbers.
Work send_numbers(std::span<const std::int64_t> numbers, const Group& pair);
Work send_numbers(std::span<const float> numbers, const Group& pair);

/// As many as the memory has. Errors as Work::wait.
void receive_numbers(std::span<std::int64_t> numbers, const Group& pair, std::chrono::milliseconds limit);

/// A server that waits for the gradients of other workers names them after the limit of the job. A worker waits longer
/// for its answer, so that this is what people read; and a server longer still for the rest of a message, which its
/// worker does not send while another server holds it up.
std::chrono::milliseconds limit_of_answer(std::chrono::milliseconds limit);
std::chrono::milliseconds limit_of_message(std::chrono::milliseconds limit);

/// Numbers of a message of rows, at most, unless one row has more: small enough for the caches, so that rows that are
/// copied here and there on their way are read from memory once.
inline constexpr std::size_t kNumbersOfPiece = 8192;

/// Rows that follow one another on their way: either in `memory`, or written by `fill` piece by piece.
struct RowsToSend {
  std::size_t rows = 0;
  std::size_t dim = 0;
  const float* memory = nullptr;  ///< [rows, dim]; nullptr: `fill`
  std::function<void(std::size_t first, std::size_t count, float* rows)> fill{};
};

/// The same for the other rank: into `memory`, or read by `take`.
struct RowsToReceive {
  std::size_t rows = 0;
  std::size_t dim = 0;
  float* memory = nullptr;
  std::function<void(std::size_t first, std::size_t count, const float* rows)> take{};
};

/// The next piece of several runs of rows, one after the other. Both ranks divide them alike.
struct RowsPiece {
  std::size_t run = 0;
  std::size_t first = 0;
  std::size_t count = 0;
};

/// Sends runs of rows in pieces; one is written while the one before it is on its way. Errors as Work::wait.
class RowSender {
 public:
  RowSender(Group pair, std::vector<RowsToSend> runs, std::chrono::milliseconds limit);

  /// Starts to send the next piece; false where there is none.
  bool send_piece();
  /// Until all that was sent has left.
  void wait();

 private:
  Group pair_;
  std::vector<RowsToSend> runs_;
  std::chrono::milliseconds limit_;
  RowsPiece next_;
  std::array<std::vector<float>, 2> buffers_;
  std::array<Work, 2> works_;
  std::size_t turn_ = 0;
};

/// Receives runs of rows in pieces; one is read while the next is on its way. Errors as Work::wait.
class RowReceiver {
 public:
  RowReceiver(Group pair, std::vector<RowsToReceive> runs, std::chrono::milliseconds limit);

  /// Waits for the next piece; false where there is none.
  bool receive_piece();

 private:
  void ask();

  struct Expected {
    RowsPiece piece;
    Work work;
  };

  Group pair_;
  std::vector<RowsToReceive> runs_;
  std::chrono::milliseconds limit_;
  RowsPiece next_;
  std::array<std::vector<float>, 2> buffers_;
  std::array<Expected, 2> expected_;
  std::size_t asked_ = 0;     ///< pieces
  std::size_t received_ = 0;  ///< pieces
};

}  // namespace lockstep::parameter_servers
