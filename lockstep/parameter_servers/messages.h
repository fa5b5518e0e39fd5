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

/// Receives as many numbers as the memory has. Errors as Work::wait.
void receive_numbers(std::span<std::int64_t> numbers, const Group& pair, std::chrono::milliseconds limit);

/// A server that waits for the gradients of other workers reports these workers after the limit of the job. A worker
/// waits longer for the response, so that the user gets the server's report. A server waits even longer for the rest of
/// a message, because the worker does not send it while another server blocks it.
std::chrono::milliseconds limit_of_answer(std::chrono::milliseconds limit);
std::chrono::milliseconds limit_of_message(std::chrono::milliseconds limit);

/// The largest number of values in a message of rows, unless one row has more. It is small enough for the caches, so
/// that rows are read from memory once although they are copied several times.
inline constexpr std::size_t kNumbersOfPiece = 8192;

/// Consecutive rows to send: either in `memory`, or written by `fill` piece by piece.
struct RowsToSend {
  std::size_t rows = 0;
  std::size_t dim = 0;
  const float* memory = nullptr;  ///< [rows, dim]; nullptr: `fill`
  std::function<void(std::size_t first, std::size_t count, float* rows)> fill{};
};

/// Consecutive rows to receive: into `memory`, or read by `take`.
struct RowsToReceive {
  std::size_t rows = 0;
  std::size_t dim = 0;
  float* memory = nullptr;
  std::function<void(std::size_t first, std::size_t count, const float* rows)> take{};
};

/// The next piece of several consecutive runs of rows. Both ranks divide the runs in the same way.
struct RowsPiece {
  std::size_t run = 0;
  std::size_t first = 0;
  std::size_t count = 0;
};

/// Sends runs of rows in pieces; a piece is written while the previous one is sent. Errors as Work::wait.
class RowSender {
 public:
  RowSender(Group pair, std::vector<RowsToSend> runs, std::chrono::milliseconds limit);

  /// Starts to send the next piece; false when no piece is left.
  bool send_piece();
  /// Waits until all pieces are sent.
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

/// Receives runs of rows in pieces; a piece is read while the next one is received. Errors as Work::wait.
class RowReceiver {
 public:
  RowReceiver(Group pair, std::vector<RowsToReceive> runs, std::chrono::milliseconds limit);

  /// Waits for the next piece; false when no piece is left.
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
