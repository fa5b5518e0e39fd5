// Point to point: order, tags, sizes around the ring, and ranks that all send first.
#include <lockstep/base/error.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "comm/shm/thread_ranks.h"

namespace lockstep::shm::test {
namespace {

constexpr std::chrono::seconds kLimit{60};

Geometry small_channels() {
  return {.headers = 4, .chunk_bytes = 512, .chunks = 2, .channel_bytes = 256, .whole_bytes = 200, .direct_bytes = 128};
}

std::vector<std::byte> message(int from, int number, std::size_t bytes) {
  std::mt19937 random(static_cast<unsigned>(from * 1000 + number));
  std::vector<std::byte> data(bytes);
  for (auto& byte : data) byte = static_cast<std::byte>(random());
  return data;
}

std::shared_ptr<Send> start_send(ThreadRank& self, int to, int tag, const std::vector<std::byte>& data) {
  auto send = std::make_shared<Send>(to, tag, data.data(), data.size());
  self.engine.submit(send);
  return send;
}

std::shared_ptr<Receive> start_receive(ThreadRank& self, int from, int tag, std::vector<std::byte>& data) {
  auto receive = std::make_shared<Receive>(from, tag, data.data(), data.size());
  self.engine.submit(receive);
  return receive;
}

// The ring holds 256 bytes, 16 of them for the header of each message.
const std::vector<std::size_t> kSizes = {0, 1, 15, 16, 17, 223, 224, 239, 240, 241, 255, 256, 257, 500, 5000};

TEST(Messages, ArriveWholeAtEverySize) {
  run_threads(2, {.geometry = small_channels()}, [](ThreadRank& self) {
    for (int round = 0; round < 3; ++round) {
      for (const std::size_t size : kSizes) {
        const auto expected = message(0, round, size);
        if (self.rank == 0) {
          self.engine.wait(*start_send(self, 1, 7, expected), kLimit);
        } else {
          std::vector<std::byte> data(size);
          self.engine.wait(*start_receive(self, 0, 7, data), kLimit);
          ASSERT_EQ(data, expected) << size;
        }
      }
    }
  });
}

TEST(Messages, OfOneTagKeepTheirOrderAndTagsCanBeTakenInAnother) {
  run_threads(2, {.geometry = small_channels()}, [](ThreadRank& self) {
    constexpr int kCount = 12;  // of each of two tags
    if (self.rank == 0) {
      std::vector<std::vector<std::byte>> data;
      std::vector<std::shared_ptr<Send>> sends;
      for (int i = 0; i < 2 * kCount; ++i) data.push_back(message(0, i, static_cast<std::size_t>(i) * 11));
      for (int i = 0; i < 2 * kCount; ++i)
        sends.push_back(start_send(self, 1, i % 2, data[static_cast<std::size_t>(i)]));
      for (const auto& send : sends) self.engine.wait(*send, kLimit);
      return;
    }
    for (const int tag : {1, 0}) {  // so those of tag 0, the empty one among them, lie and wait
      for (int i = tag; i < 2 * kCount; i += 2) {
        std::vector<std::byte> data(static_cast<std::size_t>(i) * 11);
        self.engine.wait(*start_receive(self, 0, tag, data), kLimit);
        ASSERT_EQ(data, message(0, i, data.size())) << i;
      }
    }
  });
}

TEST(Messages, GetThroughWhenAllRanksSendFirst) {
  run_threads(4, {.geometry = small_channels()}, [](ThreadRank& self) {
    const int next = (self.rank + 1) % self.size;
    const int previous = (self.rank + self.size - 1) % self.size;
    for (int round = 0; round < 10; ++round) {
      const auto mine = message(self.rank, round, 3000);
      self.engine.wait(*start_send(self, next, 0, mine), kLimit);
      std::vector<std::byte> data(3000);
      self.engine.wait(*start_receive(self, previous, 0, data), kLimit);
      ASSERT_EQ(data, message(previous, round, 3000));
    }
  });
}

TEST(Messages, MixWithCollectives) {
  run_threads(3, {.geometry = small_channels()}, [](ThreadRank& self) {
    const int next = (self.rank + 1) % self.size;
    const int previous = (self.rank + self.size - 1) % self.size;
    for (int round = 0; round < 30; ++round) {
      const auto mine = message(self.rank, round, static_cast<std::size_t>(round) * 50);
      std::vector<std::byte> data(mine.size());
      const auto receive = start_receive(self, previous, round, data);
      const auto send = start_send(self, next, round, mine);
      std::int32_t sum = self.rank;
      auto* const bytes = reinterpret_cast<std::byte*>(&sum);
      self.run(Kind::all_reduce, DType::int32, ReduceOp::sum, -1, bytes, bytes, 1);
      ASSERT_EQ(sum, 3);
      self.engine.wait(*send, kLimit);
      self.engine.wait(*receive, kLimit);
      ASSERT_EQ(data, message(previous, round, data.size()));
    }
  });
}

TEST(Messages, OfAnotherSizeFailTheGroupOnBothSides) {
  run_threads(2, {.geometry = small_channels()}, [](ThreadRank& self) {
    std::vector<std::byte> data(self.rank == 0 ? 100 : 60);
    try {
      if (self.rank == 0) {
        self.engine.wait(*start_send(self, 1, 3, data), kLimit);
        self.run(Kind::barrier, DType::other, ReduceOp::sum, -1, nullptr, nullptr, 0);
      } else {
        self.engine.wait(*start_receive(self, 0, 3, data), kLimit);
      }
      ADD_FAILURE() << "no error on rank " << self.rank;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), self.rank == 1 ? ErrorKind::mismatch : ErrorKind::peer_lost) << error.what();
      if (self.rank == 1) {
        EXPECT_NE(error.message().find("rank 0 sent 100 bytes with tag 3, but rank 1 receives 60"), std::string::npos)
            << error.what();
      } else {
        EXPECT_NE(error.message().find("rank 1 received a message whose size differs"), std::string::npos)
            << error.what();
      }
    }
  });
}

}  // namespace
}  // namespace lockstep::shm::test
