// Samples, the interfaces of data sets and streams that give them, and transforms of samples as parts that a
// configuration names.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/data/pictures.h>
#include <lockstep/data/sampler.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::data {
class PicturePlan;
}

namespace lockstep::samples {

// Samples and batches: named tensors and texts, as data sets give them and tasks take them.

/// Tensors by the name of their field. Copies share memory.
using Tensors = std::map<std::string, at::Tensor, std::less<>>;

/// One sample: tensors of any dtype and shape, and texts.
struct Sample {
  Tensors tensors;
  std::map<std::string, std::string, std::less<>> texts{};
};

/// The samples of one step on one rank. In parallel.mode semi_auto and auto a task gets global tensors: those of the
/// whole batch of all ranks, and `count` is the size of that batch.
struct Batch {
  Tensors tensors;  ///< each with the samples along dimension 0
  std::map<std::string, std::vector<std::string>, std::less<>> texts;
  std::map<std::string, std::vector<at::Tensor>, std::less<>>
      lists{};                        ///< fields with different shapes: one tensor for each sample of this rank
  std::vector<std::int64_t> indices;  ///< the samples' indices in the data set, those of this rank
  std::int64_t count = 0;             ///< samples; may be 0 (data.remainder exact)
  std::int64_t left_out = 0;          ///< unusable samples that were skipped (Dataset::leaves_out_errors)
  std::map<std::int64_t, std::string> left_out_because{};  ///< the reason for each of these samples, by its index

  /// The tensor of a field. Error(invalid_argument) that lists the existing fields when the field is missing.
  const at::Tensor& operator[](std::string_view field) const;
};

// The interface of data sets: samples by index, read by several threads on each rank.
//
//   struct Squares : samples::Dataset {
//     std::int64_t size() const override { return 1000; }
//     samples::Sample get(std::int64_t index, const samples::Chance& chance) const override {
//       const double x = static_cast<double>(index) / 1000 + 0.01 * chance.uniform("noise");
//       return {{{"x", torch::tensor({x})}, {"y", torch::tensor({x * x})}}};
//     }
//   };

/// The random numbers of one sample. They depend on the run's seed, the epoch, the index and the name of the step that
/// draws them, and on nothing else: not on ranks, threads or a resume, nor on other steps.
class Chance {
 public:
  Chance(std::uint64_t seed, std::int64_t epoch, std::int64_t index) : seed_(seed), epoch_(epoch), index_(index) {}

  /// A seed for a separate generator of the step.
  std::uint64_t seed(std::string_view step) const;
  /// The first number of the step's stream, uniform in [0, 1).
  double uniform(std::string_view step) const;
  /// A generator of the step, for more than one number; with other numbers than those of seed() and uniform().
  data::RandomStream stream(std::string_view step) const;
  /// The run's seed, the same for all samples.
  std::uint64_t run_seed() const { return seed_; }
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
  /// Continues at step `step` of epoch `epoch`, both counted from 0.
  virtual void start(std::int64_t epoch, std::int64_t step) = 0;
  /// nullopt after the last batch of the epoch. Throws the errors of making the batch.
  virtual std::optional<Batch> next() = 0;
  /// Samples of the batches since `start` that were left out (Dataset::leaves_out_errors).
  virtual std::int64_t left_out() const { return 0; }
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

  /// Names of the classes that `labels` counts, in the order of their numbers; empty: no classes, or they have no
  /// names.
  virtual std::vector<std::string> classes() const { return {}; }

  /// Texts that identify a sample for users, such as its file or columns of its row, by their names: predictions
  /// include them. Reads no sample. Empty: the index only.
  virtual std::vector<std::pair<std::string, std::string>> known_as(std::int64_t /*index*/) const { return {}; }

  /// Whether a sample for which `get` throws Error(data) is left out of its batch, and counted, instead of ending the
  /// run.
  virtual bool leaves_out_errors() const { return false; }

  /// The samples of one rank in one epoch, batch after batch: by default from the sampler.
  virtual data::EpochOrder order(const data::ShardedSampler& sampler, std::int64_t epoch) const {
    return sampler.epoch(epoch);
  }

  /// The batches of a rank, prefetched by threads. Override it if there is a faster way than `get` and `collate`.
  virtual std::unique_ptr<Batches> batches(std::shared_ptr<const Dataset> self, const data::ShardedSampler& sampler,
                                           const data::LoaderOptions& options) const;

  /// The pictures behind a data set of from_pictures(); nullptr for any other.
  virtual std::shared_ptr<const data::Pictures> stored() const { return nullptr; }

  /// A batch of one sample, from which the planner reads fields, shapes and dtypes; its values have no meaning.
  virtual Batch example() const;
};

/// Stacks equal shapes along a new dimension 0. Error(data) naming the field and both shapes where they differ.
Batch stack(std::vector<Sample> samples);

/// As `stack`, but tensors of other sizes are filled up at the end of each dimension with `value` to the largest of the
/// batch.
Batch pad_and_stack(std::vector<Sample> samples, double value = 0);

/// The ways to make one of the samples' fields: `stack` and `pad` (with zeros) as above; `list` keeps the tensors
/// apart, in Batch::lists.
enum class Collate { stack, pad, list };

/// A batch whose fields are made according to `how`; all other fields are stacked.
Batch collate(std::vector<Sample> samples, const std::map<std::string, Collate, std::less<>>& how);

/// A data set of tensors in memory, each with the samples along dimension 0. Error(invalid_argument) when their sizes
/// along it differ or there is no tensor.
std::shared_ptr<const Dataset> from_tensors(Tensors tensors);

/// A data set of labelled pictures in memory: `pictures`, uint8 [H, W, C], and `labels`, int64. A list of transforms
/// (see below) runs on the stored bytes in one pass, with equal results, where each of its steps can be compiled.
std::shared_ptr<const Dataset> from_pictures(std::shared_ptr<const data::Pictures> pictures);

/// The samples of `dataset` after `transform`, which threads call at the same time.
using Transform = std::function<Sample(Sample sample, const Chance& chance)>;
std::shared_ptr<const Dataset> mapped(std::shared_ptr<const Dataset> dataset, Transform transform);

/// `dataset` whose batches, which have at least one sample, are changed by `transform`, by several threads at a time.
/// Its Chance is that of the batch's first sample. A batch has the samples of one rank: the results depend on the
/// number of ranks.
using BatchTransform = std::function<Batch(Batch batch, const Chance& chance)>;
std::shared_ptr<const Dataset> mapped_batches(std::shared_ptr<const Dataset> dataset, BatchTransform transform);

// The interface of streams: data that is read in order, in shards, such as files of text. As a data set, each sample
// goes to exactly one rank exactly once an epoch.
//
//   struct Lines : samples::Stream {
//     std::int64_t shards() const override { return files.size(); }
//     std::unique_ptr<samples::StreamReader> open(std::int64_t shard, samples::StreamPosition from) const override {
//       return std::make_unique<LineReader>(files[shard], from);
//     }
//   };
//   auto dataset = samples::from_stream(std::make_shared<Lines>(), {});

/// A position between two samples of a shard, with a meaning that the reader defines, for example a byte offset and a
/// token after it.
struct StreamPosition {
  std::int64_t major = 0;
  std::int64_t minor = 0;

  friend bool operator==(const StreamPosition&, const StreamPosition&) = default;
};

/// Reads one shard. One thread.
class StreamReader {
 public:
  virtual ~StreamReader() = default;
  /// The next sample; nullopt at the shard's end.
  virtual std::optional<Sample> next() = 0;
  /// The position of the sample that `next` returns next.
  virtual StreamPosition position() const = 0;
};

/// The index of a shard: the position of every `window`-th sample, and the number of samples.
struct ShardIndex {
  std::vector<StreamPosition> windows;
  std::int64_t samples = 0;
};

/// Threads call it at the same time.
class Stream {
 public:
  virtual ~Stream() = default;

  /// The number of shards, a property of the data: the same for any number of ranks, and on all ranks.
  virtual std::int64_t shards() const = 0;

  /// A reader at a position from a reader of this shard; {} is the beginning.
  virtual std::unique_ptr<StreamReader> open(std::int64_t shard, StreamPosition from) const = 0;

  /// By default reads the whole shard once. Override it if the numbers follow from sizes.
  virtual ShardIndex index(std::int64_t shard, std::int64_t window) const;

  /// As a data set's; by default `stack`.
  virtual Batch collate(std::vector<Sample> samples) const;
};

struct StreamOptions {
  /// The number of samples in a window. With data.shuffle the windows of a shard are read in a random order, and so are
  /// the samples of each window. A rank keeps one window of each shard that it reads in memory.
  std::int64_t window = 256;
};

/// The data set of a stream. Shards take turns: the order of an epoch is one sample of each shard, then the next of
/// each, and so on; shards that have ended are skipped. Step t takes the positions [t * G, (t + 1) * G) of this order,
/// where G is the global batch size, and rank r of n those with offset r, r + n, ... So the samples of a step depend on
/// seed, epoch, step and G, and not on the number of ranks; epoch and step, which a checkpoint has, are the position in
/// the data. If the number of shards and G are multiples of the number of ranks, each rank reads separate shards as
/// long as no shard has ended.
///
/// Reads all shards' indices at once, so all ranks find the same wrong items. Error(data) for a stream without samples.
std::shared_ptr<const Dataset> from_stream(std::shared_ptr<const Stream> stream, const StreamOptions& options);

// Transforms of samples as parts that a configuration names, such as `resize` and `random_crop`.
//
//   samples::TransformPart{.name = "scale", .doc = "multiplies the field x",
//                          .options = PartOptions::of(ScaleOptions{}),
//                          .make = [](const PartOptions& options, const samples::TransformStep&) {
//                            return [factor = options.as<ScaleOptions>().factor](samples::Sample sample, const auto&) {
//                              sample.tensors["x"] = sample.tensors["x"] * factor;
//                              return sample;
//                            };
//                          }};

/// The context of a transform in its list.
struct TransformStep {
  /// The unique name under which the step draws random numbers (Chance): that of the part, with a number from the
  /// second equal part of a list on, `random_crop.2`. So an added step does not change the random numbers of other
  /// steps.
  std::string name;
  bool channels_first = false;  ///< pictures are CHW here, because a step before made them so
  /// Set for pictures in memory (from_pictures): the number of random steps before this one. The shipped steps then
  /// draw by this number instead of the name, and `resize` rounds halves up.
  std::optional<std::int64_t> position{};
};

/// The memory order of pictures that a transform needs and makes.
enum class PictureOrder { any, channels_last, makes_channels_first };

struct TransformPart {
  std::string name;
  std::string doc{};  ///< one line
  PartOptions options{};
  std::function<Transform(const PartOptions&, const TransformStep&)> make;
  bool random = false;  ///< left out of evaluation where data.eval_transforms is not given
  PictureOrder order = PictureOrder::any;
  /// Adds the step to the compiled form for pictures in memory, with equal results; false where that is not possible.
  /// Internal: empty for parts of users, whose lists run step by step.
  std::function<bool(const PartOptions&, const TransformStep&, data::PicturePlan&)> compile{};
  /// Instead of `make`, for a transform of batches, such as mixup; in a list these follow all transforms of samples.
  /// Called with the data set before its transforms.
  std::function<BatchTransform(const PartOptions&, const TransformStep&, const Dataset&)> make_for_batches{};
};

/// The shipped transforms of pictures, with the numeric results of torchvision on tensors.
std::vector<TransformPart> shipped_transforms();

/// `dataset` after the transforms of a list such as `[resize: {size: 256}, to_tensor]`, one after the other. Names may
/// be written as in MindSpore (RandomCrop, HWC2CHW), and a single number instead of a list of numbers. Without
/// `with_random` the random ones are left out. `what` is the list's key. Error(config), with the place in the file, for
/// unknown names and arguments (with the nearest name), values out of range, and steps that cannot follow the previous
/// ones. Pictures in memory (from_pictures) must end as float32 [C, H, W].
std::shared_ptr<const Dataset> transformed(std::shared_ptr<const Dataset> dataset, const ConfigNode& list,
                                           std::string_view what, const std::vector<TransformPart>& parts,
                                           bool with_random = true);

/// The same with the shipped transforms and a list as YAML: transformed(pictures, "[rescale: {scale: 0.004},
/// hwc2chw]").
std::shared_ptr<const Dataset> transformed(std::shared_ptr<const Dataset> dataset, std::string_view list);

/// The list as one transform of samples of data sets that are not in memory, without its transforms of batches; empty
/// without any step. Errors as above.
Transform transforms_of(const ConfigNode& list, std::string_view what, const std::vector<TransformPart>& parts,
                        bool with_random = true);

}  // namespace lockstep::samples
