// Threads as ranks of the shared-memory core: the same protocol without processes, so that ThreadSanitizer sees all.
#pragma once

#include <lockstep/comm/shm/arena.h>
#include <lockstep/comm/shm/engine.h>
#include <lockstep/comm/shm/segment.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::shm::test {

/// Memory that is zero at first, as a new segment is, and aligned as one.
class Pages {
 public:
  explicit Pages(std::size_t bytes);
  std::byte* data() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
};

/// One rank of a test.
struct ThreadRank {
  Engine& engine;
  SharedBlocks& blocks;
  std::byte* shared_part;  ///< this rank's part of the shared block
  int rank;
  int size;

  /// Starts a collective of this kind; sizes count elements of `dtype`: of one rank's block.
  std::shared_ptr<Collective> start(Kind kind, DType dtype, ReduceOp op, int root, const std::byte* input,
                                    std::byte* output, std::size_t block_elements);
  /// The same, to its end.
  void run(Kind kind, DType dtype, ReduceOp op, int root, const std::byte* input, std::byte* output,
           std::size_t block_elements);
};

struct ThreadOptions {
  Geometry geometry;             ///< `ranks` is filled in
  int cpus = 0;                  ///< what the engines believe; 0: more ranks than processors, as if they had to share
  std::size_t shared_bytes = 0;  ///< of a block that all ranks share, of each rank's part; its id is 1
};

/// Runs `body` on n threads; an exception in one is a failure of the test.
void run_threads(int n, ThreadOptions options, const std::function<void(ThreadRank&)>& body);

std::size_t item_bytes(DType dtype);

inline std::byte* bytes(std::int32_t* data) { return reinterpret_cast<std::byte*>(data); }

}  // namespace lockstep::shm::test
