// Data sets of samples: batches, collation, chance.
#include <lockstep/samples/dataset.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>
#include <stdexcept>

#include "base/expect_error.h"

namespace lockstep::test {
namespace {

using samples::Batch;
using samples::Chance;
using samples::Sample;

/// Sample i: its index, a random number, i + 1 ones, and a text.
struct Ragged : samples::Dataset {
  std::int64_t size() const override { return 10; }
  Sample get(std::int64_t index, const Chance& chance) const override {
    if (index == fails_at) throw std::runtime_error("sample 7 is broken");
    return {.tensors = {{"index", torch::tensor(index)},
                        {"noise", torch::tensor(chance.uniform("noise"), torch::kDouble)},
                        {"row", torch::ones({1, index + 1})}},
            .texts = {{"name", "s" + std::to_string(index)}}};
  }
  Batch collate(std::vector<Sample> each) const override { return samples::pad_and_stack(std::move(each), -1); }
  std::int64_t fails_at = -1;
};

std::vector<Batch> all_batches(const std::shared_ptr<const samples::Dataset>& dataset, int workers, int shards,
                               int shard, std::int64_t epoch = 0, std::int64_t step = 0,
                               data::Remainder remainder = data::Remainder::exact) {
  const data::ShardedSampler sampler({.dataset_size = dataset->size(),
                                      .num_shards = shards,
                                      .shard_id = shard,
                                      .seed = 5,
                                      .remainder = remainder,
                                      .batch_size = 2});
  const auto batches = dataset->batches(dataset, sampler, {.workers = workers, .seed = 9});
  batches->start(epoch, step);
  std::vector<Batch> all;
  while (auto batch = batches->next()) all.push_back(std::move(*batch));
  return all;
}

TEST(Samples, ABatchHasItsSamplesWhateverTheThreads) {
  const auto dataset = std::make_shared<Ragged>();
  const auto here = all_batches(dataset, 0, 1, 0);
  ASSERT_EQ(here.size(), 5U);
  std::set<std::int64_t> seen;
  for (const auto& batch : here) {
    EXPECT_EQ(batch.count, 2);
    for (int i = 0; i < 2; ++i) {
      const auto index = batch["index"][i].item<std::int64_t>();
      seen.insert(index);
      EXPECT_EQ(batch.indices[static_cast<std::size_t>(i)], index);
      EXPECT_EQ(batch.texts.at("name")[static_cast<std::size_t>(i)], "s" + std::to_string(index));
      EXPECT_EQ(batch["row"][i].eq(1).sum().item<std::int64_t>(), index + 1);
      EXPECT_EQ(batch["row"][i].ge(-1).sum().item<std::int64_t>(), batch["row"].size(2));
      EXPECT_EQ(batch["noise"][i].item<double>(), Chance(9, 0, index).uniform("noise"));
    }
  }
  EXPECT_EQ(seen.size(), 10U);
  for (const int workers : {1, 3}) {
    const auto there = all_batches(dataset, workers, 1, 0);
    ASSERT_EQ(there.size(), here.size());
    for (std::size_t i = 0; i < here.size(); ++i) {
      EXPECT_EQ(there[i].indices, here[i].indices);
      EXPECT_TRUE(torch::equal(there[i]["noise"], here[i]["noise"]));
    }
  }
}

TEST(Samples, AnEpochGoesOnInItsMiddleAndTheNextIsAnother) {
  const auto dataset = std::make_shared<Ragged>();
  const auto whole = all_batches(dataset, 2, 1, 0, 3);
  const auto rest = all_batches(dataset, 2, 1, 0, 3, 2);
  ASSERT_EQ(rest.size(), 3U);
  for (std::size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i].indices, whole[i + 2].indices);
  EXPECT_NE(all_batches(dataset, 2, 1, 0, 4).front().indices, whole.front().indices);
}

TEST(Samples, ARankWithoutSamplesHasTheFieldsAllTheSame) {
  const auto batches = all_batches(std::make_shared<Ragged>(), 0, 4, 3);
  const auto& last = batches.back();
  ASSERT_EQ(last.count, 0);
  EXPECT_EQ(last["index"].sizes(), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(last["row"].size(0), 0);
  EXPECT_TRUE(last.texts.at("name").empty());
}

TEST(Samples, ASampleThatFailsIsTheErrorOfItsTurn) {
  const auto dataset = std::make_shared<Ragged>();
  dataset->fails_at = 7;
  for (const int workers : {0, 2}) {
    EXPECT_THROW(
        {
          try {
            all_batches(dataset, workers, 1, 0);
          } catch (const std::runtime_error& error) {
            EXPECT_STREQ(error.what(), "[data] sample 7: sample 7 is broken");
            throw;
          }
        },
        std::runtime_error);
  }
}

TEST(Samples, EachStepHasAStreamOfItsOwn) {
  const Chance chance(1, 2, 3);
  EXPECT_EQ(chance.uniform("flip"), Chance(1, 2, 3).uniform("flip"));
  std::set<double> numbers;
  for (const auto& other : {Chance(1, 2, 3), Chance(2, 2, 3), Chance(1, 3, 3), Chance(1, 2, 4)}) {
    for (const auto* step : {"flip", "crop", "", "flipcrop"}) numbers.insert(other.uniform(step));
  }
  EXPECT_EQ(numbers.size(), 16U);
  EXPECT_NE(chance.seed("flip"), chance.seed("crop"));
}

TEST(Samples, TensorsInMemoryAreADataSetThatCanBeMapped) {
  const auto x = torch::arange(12, torch::kFloat).reshape({6, 2});
  const auto dataset = samples::from_tensors({{"x", x}, {"y", torch::arange(6)}});
  ASSERT_EQ(dataset->size(), 6);
  const auto doubled = samples::mapped(dataset, [](Sample sample, const Chance& chance) {
    sample.tensors["x"] = sample.tensors["x"] * 2;
    sample.tensors["epoch"] = torch::tensor(chance.epoch());
    return sample;
  });
  const auto sample = doubled->get(4, Chance(0, 7, 4));
  EXPECT_TRUE(torch::equal(sample.tensors.at("x"), x[4] * 2));
  EXPECT_EQ(sample.tensors.at("epoch").item<std::int64_t>(), 7);
  EXPECT_TRUE(torch::equal(dataset->get(4, Chance(0, 0, 4)).tensors.at("x"), x[4]));
  EXPECT_EQ(doubled->example()["x"].sizes(), (std::vector<std::int64_t>{1, 2}));
}

TEST(Samples, WhatDoesNotFitIsAnErrorThatSaysHow) {
  const auto of = [](const torch::Tensor& tensor) { return Sample{.tensors = {{"x", tensor}}}; };
  expect_error(ErrorKind::data, {"x", "[2]", "[3]", "pad_and_stack"}, [&] {
    samples::stack({of(torch::ones({2})), of(torch::ones({3}))});
  });
  expect_error(ErrorKind::data, {"x", "1", "2 dimensions"}, [&] {
    samples::pad_and_stack({of(torch::ones({2})), of(torch::ones({3, 1}))});
  });
  expect_error(ErrorKind::data, {"different fields", "x", "y"}, [&] {
    samples::stack({of(torch::ones({2})), Sample{.tensors = {{"y", torch::ones({2})}}}});
  });
  expect_error(ErrorKind::invalid_argument, {"no field 'z'", "x"},
               [&] { samples::stack({of(torch::ones({2}))})["z"]; });
  expect_error(ErrorKind::invalid_argument, {"at least one field"}, [] { samples::from_tensors({}); });
  expect_error(ErrorKind::invalid_argument, {"x", "[3, 1]", "y", "[2]"}, [] {
    samples::from_tensors({{"x", torch::ones({3, 1})}, {"y", torch::ones({2})}});
  });
  const auto dataset = std::make_shared<Ragged>();
  const data::ShardedSampler sampler({.dataset_size = 10});
  expect_error(ErrorKind::invalid_argument, {"-1 workers"},
               [&] { dataset->batches(dataset, sampler, {.workers = -1}); });
}

}  // namespace
}  // namespace lockstep::test
