// Streams: each sample to one rank once, from any place, on any number of ranks.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/samples/text.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/expect_error.h"

namespace lockstep::test {
namespace {

using samples::Chance;
using samples::Dataset;

/// Shard s has 5 + 7 * s samples with the number 1000 * s + i.
class Numbers : public samples::Stream {
 public:
  class Reader : public samples::StreamReader {
   public:
    Reader(const Numbers& numbers, std::int64_t shard, std::int64_t next)
        : numbers_(numbers), shard_(shard), next_(next) {}
    std::optional<samples::Sample> next() override {
      if (next_ >= 5 + 7 * shard_) return std::nullopt;
      ++numbers_.reads;
      return samples::Sample{.tensors = {{"x", torch::tensor(1000 * shard_ + next_++)}}};
    }
    samples::StreamPosition position() const override { return {next_, 0}; }

   private:
    const Numbers& numbers_;
    std::int64_t shard_;
    std::int64_t next_;
  };

  explicit Numbers(std::int64_t shards) : shards_(shards) {}
  std::int64_t shards() const override { return shards_; }
  std::unique_ptr<samples::StreamReader> open(std::int64_t shard, samples::StreamPosition from) const override {
    return std::make_unique<Reader>(*this, shard, from.major);
  }
  mutable std::atomic<std::int64_t> reads = 0;

 private:
  std::int64_t shards_;
};

struct Reading {
  int ranks = 1;
  std::int64_t epoch = 0;
  std::int64_t from = 0;  // steps
  std::int64_t to = 1'000'000;
  bool shuffle = true;
  int workers = 0;
  std::int64_t batch = 6;  // of all ranks
};

/// The samples of each step, of all ranks.
std::map<std::int64_t, std::multiset<std::int64_t>> read_steps(const std::shared_ptr<const Dataset>& dataset,
                                                               const Reading& how, const char* field = "x") {
  std::map<std::int64_t, std::multiset<std::int64_t>> steps;
  for (int rank = 0; rank < how.ranks; ++rank) {
    const data::ShardedSampler sampler({.dataset_size = dataset->size(),
                                        .num_shards = how.ranks,
                                        .shard_id = rank,
                                        .shuffle = how.shuffle,
                                        .seed = 11,
                                        .remainder = data::Remainder::exact,
                                        .global_batch_size = how.batch});
    const auto batches = dataset->batches(dataset, sampler, {.workers = how.workers, .seed = 4});
    batches->start(how.epoch, how.from);
    for (auto step = how.from; step < how.to; ++step) {
      const auto batch = batches->next();
      if (!batch) break;
      for (std::int64_t i = 0; i < batch->count; ++i) {
        steps[step].insert((*batch)[field][i].flatten()[0].item<std::int64_t>());
      }
    }
  }
  return steps;
}

std::multiset<std::int64_t> all_of(const std::map<std::int64_t, std::multiset<std::int64_t>>& steps) {
  std::multiset<std::int64_t> all;
  for (const auto& [step, samples] : steps) all.insert(samples.begin(), samples.end());
  return all;
}

std::multiset<std::int64_t> expected_numbers(std::int64_t shards) {
  std::multiset<std::int64_t> all;
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    for (std::int64_t i = 0; i < 5 + 7 * shard; ++i) all.insert(1000 * shard + i);
  }
  return all;
}

TEST(Streams, EachSampleGoesToOneRankOnceAndAStepHasTheSameOnAnyNumberOfRanks) {
  const auto dataset = samples::from_stream(std::make_shared<Numbers>(4), {.window = 3});
  for (const bool shuffle : {false, true}) {
    const auto alone = read_steps(dataset, {.shuffle = shuffle});
    EXPECT_EQ(all_of(alone), expected_numbers(4));
    for (const int ranks : {2, 3, 4, 7}) {
      EXPECT_EQ(read_steps(dataset, {.ranks = ranks, .shuffle = shuffle, .workers = 2}), alone) << ranks;
    }
  }
  EXPECT_NE(read_steps(dataset, {}), read_steps(dataset, {.epoch = 1}));
  EXPECT_EQ(all_of(read_steps(dataset, {.epoch = 1})), expected_numbers(4));
}

TEST(Streams, AnotherNumberOfRanksGoesOnWithoutReadingTwiceOrLosing) {
  const auto stream = std::make_shared<Numbers>(5);
  const auto dataset = samples::from_stream(stream, {.window = 4});
  for (const std::int64_t at : {1, 4, 9}) {
    auto both = all_of(read_steps(dataset, {.ranks = 4, .to = at}));
    // Another process, with an index of its own.
    const auto again = samples::from_stream(std::make_shared<Numbers>(5), {.window = 4});
    both.merge(all_of(read_steps(again, {.ranks = 3, .from = at})));
    EXPECT_EQ(both, expected_numbers(5)) << at;
  }
}

TEST(Streams, ARankReadsShardsOfItsOwn) {
  const auto stream = std::make_shared<Numbers>(4);
  const auto dataset = samples::from_stream(stream, {.window = 4});
  const data::ShardedSampler sampler({.dataset_size = dataset->size(),
                                      .num_shards = 2,
                                      .shard_id = 1,
                                      .shuffle = false,
                                      .remainder = data::Remainder::exact,
                                      .global_batch_size = 4});
  const auto batches = dataset->batches(dataset, sampler, {});
  batches->start(0, 0);
  stream->reads = 0;
  for (int step = 0; step < 4; ++step) {
    const auto batch = batches->next();
    ASSERT_TRUE(batch);
    for (std::int64_t i = 0; i < batch->count; ++i) EXPECT_EQ((*batch)["x"][i].item<std::int64_t>() / 1000 % 2, 1);
  }
  EXPECT_EQ(stream->reads, 8);  // one window of each of its two shards
}

TEST(Streams, NothingToReadIsAnError) {
  expect_error(ErrorKind::data, {"no samples"}, [] { samples::from_stream(std::make_shared<Numbers>(0), {}); });
  expect_error(ErrorKind::invalid_argument, {"window"},
               [] { samples::from_stream(std::make_shared<Numbers>(1), {.window = 0}); });
}

class TokenStreams : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name, std::ios::binary) << text;
    return (folder_.path() / name).string();
  }

  samples::TokenStreamOptions options(const std::string& format, std::vector<std::string> files) const {
    samples::TokenStreamOptions out;
    out.train = std::move(files);
    out.format = format;
    out.length = 4;
    out.window = 2;
    return out;
  }

  /// The tokens of all windows of a data set, one window after the other, and of each the one behind.
  static std::string text_of(const Dataset& dataset) {
    std::string text;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      const auto sample = dataset.get(i, Chance(0, 0, i));
      const auto& tokens = sample.tensors.at(samples::kTokens);
      const auto& next = sample.tensors.at(samples::kNext);
      for (std::int64_t t = 0; t < tokens.numel(); ++t) text += static_cast<char>(tokens[t].item<std::int64_t>());
      EXPECT_TRUE(torch::equal(tokens.narrow(0, 1, tokens.numel() - 1), next.narrow(0, 0, next.numel() - 1)));
    }
    return text;
  }

  TemporaryFolder folder_;
};

TEST_F(TokenStreams, DocumentsOfAnyLengthArePackedIntoWindows) {
  const auto file = write("a.txt", "one\ntwelve\n\nthree and more\r\nend");
  const auto dataset = samples::load_token_stream(options("lines", {file}), data::Split::train);
  const std::string packed = "one\ntwelve\n\nthree and more\nend\n";  // a separator behind the last one, too
  ASSERT_EQ(dataset->size(), static_cast<std::int64_t>((packed.size() - 1) / 4));
  EXPECT_EQ(text_of(*dataset), packed.substr(0, static_cast<std::size_t>(dataset->size()) * 4));
  auto bare = options("lines", {file});
  bare.separator = -1;
  EXPECT_TRUE(text_of(*samples::load_token_stream(bare, data::Split::train)).starts_with("onetwelvethree and more"));
}

TEST_F(TokenStreams, ReadFromTheMiddleTheyAreTheSame) {
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += std::string(static_cast<std::size_t>(i * 7 % 13), static_cast<char>('a' + i % 26)) + "\n";
  const auto dataset = samples::load_token_stream(options("lines", {write("a.txt", text)}), data::Split::train);
  const auto backwards = samples::load_token_stream(options("lines", {write("a.txt", text)}), data::Split::train);
  for (std::int64_t i = dataset->size() - 1; i >= 0; --i) {
    const auto sample = backwards->get(i, Chance(0, 0, i));
    EXPECT_EQ(sample.tensors.at(samples::kTokens)[0].item<std::int64_t>(), text[static_cast<std::size_t>(4 * i)]) << i;
  }
}

TEST_F(TokenStreams, JsonLinesHaveTextsOrTokens) {
  auto of = options(
      "jsonl", {write("a.jsonl", "{\"text\": \"ab\\u00e9\", \"id\": 1}\n\n{\"text\": [300, 2, 1]}\n{\"text\": []}")});
  of.separator = 0;
  const auto dataset = samples::load_token_stream(of, data::Split::train);
  ASSERT_EQ(dataset->size(), 2);
  const auto second = dataset->get(1, Chance(0, 0, 1));
  EXPECT_TRUE(torch::equal(second.tensors.at(samples::kTokens), torch::tensor({0, 300, 2, 1}, torch::kLong)));
}

// Also in the middle of a document, where a window begins.
TEST_F(TokenStreams, OnlyWhatIsBehindTheMarkerOfADocumentCounts) {
  const std::string packed = "Q: one? A: two, three A: four\nA: x\nwhy A: y and z\n";
  const std::string counts = "...........###################...##.......########";
  auto of = options("lines", {write("a.txt", packed)});
  of.loss_behind = "A: ";
  const auto dataset = samples::load_token_stream(of, data::Split::train);
  ASSERT_EQ(dataset->size(), static_cast<std::int64_t>((packed.size() - 1) / 4));
  const auto counted_in = [&](std::int64_t index) {
    const auto counted = dataset->get(index, Chance(0, 0, index)).tensors.at(samples::kCounted);
    std::string text;
    for (std::int64_t t = 0; t < counted.numel(); ++t) text += counted[t].item<bool>() ? '#' : '.';
    return text;
  };
  std::string forwards, backwards;
  for (std::int64_t i = dataset->size() - 1; i >= 0; --i) backwards = counted_in(i) + backwards;
  for (std::int64_t i = 0; i < dataset->size(); ++i) forwards += counted_in(i);
  EXPECT_EQ(text_of(*dataset), packed.substr(0, forwards.size()));
  EXPECT_EQ(forwards, counts.substr(1, forwards.size()));
  EXPECT_EQ(backwards, forwards);

  EXPECT_FALSE(samples::load_token_stream(options("lines", of.train), data::Split::train)
                   ->get(0, Chance(0, 0, 0))
                   .tensors.contains(samples::kCounted));
  of.train = {write("a.txt", "long enough A: yes\nno answer\n")};
  expect_error(ErrorKind::data, {"a.txt:2", "the document has no 'A: '", "data.loss_behind"},
               [&] { samples::load_token_stream(of, data::Split::train); });
  of.on_error = "skip";
  EXPECT_TRUE(text_of(*samples::load_token_stream(of, data::Split::train)).starts_with("long enough A: "));
  of.format = "bytes";
  expect_error(ErrorKind::config, {"data.loss_behind", "lines or jsonl", "bytes"},
               [&] { samples::load_token_stream(of, data::Split::train); });
}

TEST_F(TokenStreams, FilesOfAFolderAreShards) {
  std::filesystem::create_directories(folder_.path() / "shards");
  for (int shard = 0; shard < 3; ++shard) {
    std::string bytes;
    for (int i = 0; i < 9; ++i) bytes += {static_cast<char>(100 * shard + i), 0};
    write(fmt::format("shards/{}.bin", shard), bytes);
  }
  const auto dataset =
      samples::load_token_stream(options("uint16", {(folder_.path() / "shards").string()}), data::Split::train);
  EXPECT_EQ(dataset->size(), 6);
  const auto all = all_of(read_steps(dataset, {.ranks = 2, .batch = 4}, samples::kTokens));
  EXPECT_EQ(all, (std::multiset<std::int64_t>{0, 4, 100, 104, 200, 204}));
}

TEST_F(TokenStreams, WhatCannotBeUsedIsNamedByFileAndLineOrLeftOut) {
  const auto fails = [&](samples::TokenStreamOptions of, ErrorKind kind,
                         std::initializer_list<std::string_view> words) {
    expect_error(kind, words, [&] { samples::load_token_stream(of, data::Split::train); });
  };
  const auto good = std::string("{\"text\": \"four and more\"}\n");
  fails(options("jsonl", {write("a", good + "{\"text\": 3}\n")}), ErrorKind::data, {"a:2", "'text'"});
  fails(options("jsonl", {write("a", good + "{\"txet\": \"x\"}\n")}), ErrorKind::data, {"a:2", "text"});
  fails(options("jsonl", {write("a", good + "{\"text\": [1, -2]}")}), ErrorKind::data, {"a:2", "token 1"});
  fails(options("jsonl", {write("a", "{\"text\": \"x\n")}), ErrorKind::data, {"a:1", "valid JSON"});
  auto few = options("lines", {write("a", "abc\nxyz\n")});
  few.vocabulary = 121;
  fails(few, ErrorKind::data, {"a:2", "token 1", "121", "data.vocabulary is 121"});
  fails(options("lines", {write("a", "ab")}), ErrorKind::config, {"data.train", "4 tokens"});
  fails(options("lines", {"/nowhere"}), ErrorKind::config, {"data.train", "/nowhere"});
  fails(options("uint16", {write("a", "abc")}), ErrorKind::data, {"3 bytes"});
  std::filesystem::create_directories(folder_.path() / "empty");
  fails(options("lines", {(folder_.path() / "empty").string()}), ErrorKind::config, {"data.train", "no files"});
  auto skips = options("jsonl", {write("a", good + "wrong\n" + good)});
  skips.on_error = "skip";
  EXPECT_EQ(text_of(*samples::load_token_stream(skips, data::Split::train)), "four and more\nfour and m");
}

}  // namespace
}  // namespace lockstep::test
