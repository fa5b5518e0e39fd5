// The interface of data sets: samples by index, read by many threads of many ranks.
//
//   struct Squares : samples::Dataset {
//     std::int64_t size() const override { return 1000; }
//     samples::Sample get(std::int64_t index, const samples::Chance& chance) const override {
//       const double x = static_cast<double>(index) / 1000 + 0.01 * chance.uniform("noise");
//       return {{{"x", torch::tensor({x})}, {"y", torch::tensor({x * x})}}};
//     }
//   };
#pragma once

#include <lockstep/data/loader.h>
#include <lockstep/data/sampler.h>
#include <lockstep/samples/sample.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep::samples {

/// The random numbers of one sample. They depend on the run's seed, the epoch, the index and the name of the step that
/// draws them, and on nothing else: not on ranks, threads or a resume, nor on other steps.
class Chance {
 public:
  Chance(std::uint64_t seed, std::int64_t epoch, std::int64_t index) : seed_(seed), epoch_(epoch), index_(index) {}

  /// A seed for a generator of the step's own.
  std::uint64_t seed(std::string_view step) const;
  /// The first number of the step's stream, uniform in [0, 1).
  double uniform(std::string_view step) const;
  std::int64_t epoch() const { return epoch_; }
  std::int64_t index() const { return index_; }

 private:
  std::uint64_t seed_;
  std::int64_t epoch_;
  std::int64_t index_;
};

/// The batches of one rank. One consumer thread.
class Batches {
 public:
  virtual ~Batches() = default;
  /// Goes on at step `step` of epoch `epoch`, both counted from 0.
  virtual void start(std::int64_t epoch, std::int64_t step) = 0;
  /// nullopt after the last batch of the epoch. Throws what making the batch threw.
  virtual std::optional<Batch> next() = 0;
};

/// A data set. `get` and `collate` are called from several threads at a time.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;

  /// 0 <= index < size(). Every sample has the same fields.
  virtual Sample get(std::int64_t index, const Chance& chance) const = 0;

  /// Makes a batch of samples, which are at least one: by default `stack`.
  virtual Batch collate(std::vector<Sample> samples) const;

  /// The batches of a rank, made ahead by threads. Override it where there is a faster way than `get` and `collate`.
  virtual std::unique_ptr<Batches> batches(std::shared_ptr<const Dataset> self, const data::ShardedSampler& sampler,
                                           const data::LoaderOptions& options) const;

  /// A batch of one sample, of which only fields, shapes and dtypes count: how the planner learns them.
  virtual Batch example() const;
};

/// Stacks equal shapes along a new dimension 0. Error(data) naming the field and both shapes where they differ.
Batch stack(std::vector<Sample> samples);

/// As `stack`, but tensors of other sizes are filled up at the end of each dimension with `value` to the largest of the
/// batch.
Batch pad_and_stack(std::vector<Sample> samples, double value = 0);

/// A data set of tensors in memory, each with the samples along dimension 0. Error(invalid_argument) when their sizes
/// along it differ or there is none.
std::shared_ptr<const Dataset> from_tensors(Tensors tensors);

/// The samples of `dataset` after `transform`, which threads call at the same time.
using Transform = std::function<Sample(Sample sample, const Chance& chance)>;
std::shared_ptr<const Dataset> mapped(std::shared_ptr<const Dataset> dataset, Transform transform);

}  // namespace lockstep::samples
