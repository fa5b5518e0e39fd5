#include "comm/shm/thread_ranks.h"

#include <lockstep/comm/shm/transfer.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <thread>

namespace lockstep::shm::test {

Pages::Pages(std::size_t bytes) {
  const std::size_t whole = (bytes + 4095) / 4096 * 4096;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, std::max<std::size_t>(whole, 4096))));
  std::memset(memory_.get(), 0, whole);
}

void Pages::Free::operator()(std::byte* memory) const { std::free(memory); }

std::size_t item_bytes(DType dtype) {
  switch (dtype) {
    case DType::float64:
    case DType::int64: return 8;
    case DType::float32:
    case DType::int32: return 4;
    case DType::bfloat16:
    case DType::float16:
    case DType::int16: return 2;
    default: return 1;
  }
}

std::shared_ptr<Collective> ThreadRank::start(Kind kind, DType dtype, ReduceOp op, int root, const std::byte* input,
                                              std::byte* output, std::size_t block_elements) {
  Signature signature{.kind = kind, .dtype = dtype, .op = static_cast<std::uint8_t>(op), .root = root};
  const std::int64_t elements = static_cast<std::int64_t>(block_elements);
  signature.set_sizes(std::span(&elements, 1));
  const std::size_t bytes = block_elements * item_bytes(dtype);
  const Geometry& geometry = engine.segment().geometry();
  const Pattern pattern = pattern_of(kind);
  const std::size_t input_bytes = bytes * (pattern.blocks_in ? static_cast<std::size_t>(size) : 1);
  const bool direct = input != nullptr && input_bytes >= static_cast<std::size_t>(geometry.direct_bytes);
  const Place place = direct ? blocks.find(input, input_bytes) : Place{};
  const ReduceKernel kernel = pattern.reduces ? reduce_kernel(dtype, op) : nullptr;
  std::shared_ptr<Collective> collective;
  if (kind == Kind::all_reduce && bytes > static_cast<std::size_t>(geometry.whole_bytes)) {
    collective = std::make_shared<SlicedAllReduce>(signature, place, output, bytes, item_bytes(dtype), kernel);
  } else {
    const Buffers buffers{input, output, bytes, item_bytes(dtype)};
    collective = std::make_shared<Transfer>(signature, place, buffers, kernel);
  }
  engine.submit(collective);
  return collective;
}

void ThreadRank::run(Kind kind, DType dtype, ReduceOp op, int root, const std::byte* input, std::byte* output,
                     std::size_t block_elements) {
  engine.wait(*start(kind, dtype, op, root, input, output, block_elements), std::chrono::seconds(60));
}

void run_threads(int n, ThreadOptions options, const std::function<void(ThreadRank&)>& body) {
  options.geometry.ranks = n;
  const auto pages = std::make_shared<Pages>(Segment::bytes(options.geometry));
  const Segment segment(pages->data(), options.geometry);
  const std::size_t stride = (options.shared_bytes + kLine - 1) / kLine * kLine;
  const Pages shared(stride * static_cast<std::size_t>(n));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      Engine engine(segment, pages,
                    {.rank = rank, .cpus = options.cpus, .world_ranks = {}, .lifelines = {}, .while_waiting = {}});
      SharedBlocks blocks(rank);
      if (stride > 0) blocks.add(1, shared.data(), stride);
      ThreadRank self{engine, blocks, shared.data() + static_cast<std::size_t>(rank) * stride, rank, n};
      try {
        body(self);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << " of " << n << ": " << error.what();
        engine.abort();
      }
    });
  }
}

}  // namespace lockstep::shm::test
