// Random access to shards that can only be read forwards: an index of windows, a cache of the last windows read, and an
// order that shuffles windows, samples within them, and the shards' turns.
#include <lockstep/base/error.h>
#include <lockstep/data/sampler.h>
#include <lockstep/samples/dataset.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

namespace lockstep::samples {
namespace {

/// A cache of the last windows of shards. Thread-safe; if several threads need the same window, one of them reads it.
class WindowCache {
 public:
  using Key = std::pair<std::int64_t, std::int64_t>;  // shard, window
  using Window = std::vector<Sample>;

  explicit WindowCache(std::size_t most) : most_(most) {}

  template <typename Read>
  std::shared_ptr<const Window> get(const Key& key, const Read& read) {
    const auto entry = entry_of(key);
    std::call_once(entry->once, [&] { entry->window = std::make_shared<const Window>(read()); });
    return entry->window;
  }

 private:
  struct Entry {
    std::once_flag once;
    std::shared_ptr<const Window> window;
    std::list<Key>::iterator place;
  };

  std::shared_ptr<Entry> entry_of(const Key& key) {
    const std::lock_guard lock(mutex_);
    auto& entry = entries_[key];
    if (entry) {
      used_.splice(used_.begin(), used_, entry->place);
      return entry;
    }
    entry = std::make_shared<Entry>();
    used_.push_front(key);
    entry->place = used_.begin();
    const auto made = entry;
    if (used_.size() > most_) {
      entries_.erase(used_.back());
      used_.pop_back();
    }
    return made;
  }

  const std::size_t most_;
  std::mutex mutex_;
  std::list<Key> used_;  // most recently used first
  std::map<Key, std::shared_ptr<Entry>> entries_;
};

void shuffle(std::span<std::int64_t> numbers, data::RandomStream random) {
  for (std::size_t i = numbers.size(); i > 1; --i) std::swap(numbers[i - 1], numbers[random.below(i)]);
}

class StreamDataset final : public Dataset {
 public:
  StreamDataset(std::shared_ptr<const Stream> stream, const StreamOptions& options)
      : stream_(std::move(stream)),
        window_(options.window),
        cache_(static_cast<std::size_t>(stream_->shards()) + kSpareWindows) {
    std::int64_t first = 0;
    for (std::int64_t shard = 0; shard < stream_->shards(); ++shard) {
      shards_.push_back(stream_->index(shard, window_));
      firsts_.push_back(first);
      first += shards_.back().samples;
    }
    size_ = first;
  }

  std::int64_t size() const override { return size_; }

  Sample get(std::int64_t index, const Chance&) const override {
    const auto shard = std::ranges::upper_bound(firsts_, index) - firsts_.begin() - 1;
    const auto place = index - firsts_[static_cast<std::size_t>(shard)];
    const auto window = cache_.get({shard, place / window_}, [&] { return read(shard, place / window_); });
    Sample sample = (*window)[static_cast<std::size_t>(place % window_)];
    for (auto& [name, tensor] : sample.tensors) tensor = tensor.clone();  // transforms may change it in place
    return sample;
  }

  Batch collate(std::vector<Sample> samples) const override { return stream_->collate(std::move(samples)); }

  data::EpochOrder order(const data::ShardedSampler& sampler, std::int64_t epoch) const override {
    auto options = sampler.options();
    const bool shuffles = std::exchange(options.shuffle, false);
    const auto places = data::ShardedSampler(options).epoch(epoch);
    const auto whole = whole_order(shuffles, options.seed, epoch);
    std::vector<std::int64_t> own;
    own.reserve(places.indices().size());
    for (const auto place : places.indices()) own.push_back(whole[static_cast<std::size_t>(place)]);
    // The first batch is full, unless it is the only one.
    const auto batch_size = places.steps() > 0 ? static_cast<std::int64_t>(places.batch(0).size()) : 0;
    return {std::move(own), std::max<std::int64_t>(1, batch_size), places.steps()};
  }

 private:
  static constexpr std::size_t kSpareWindows = 16;  // for windows that end while batches are prefetched

  std::vector<Sample> read(std::int64_t shard, std::int64_t window) const {
    const auto& index = shards_[static_cast<std::size_t>(shard)];
    const auto due = std::min(window_, index.samples - window * window_);
    const auto reader = stream_->open(shard, index.windows[static_cast<std::size_t>(window)]);
    std::vector<Sample> samples;
    while (static_cast<std::int64_t>(samples.size()) < due) {
      auto sample = reader->next();
      if (!sample) {
        fail(ErrorKind::data, "stream", "shard {} ends after {} samples of its window {}, and had {} before", shard,
             samples.size(), window, due);
      }
      samples.push_back(std::move(*sample));
    }
    return samples;
  }

  /// The samples of a shard in the order of an epoch, as indices in the data set.
  std::vector<std::int64_t> shard_order(std::size_t shard, bool shuffles, std::uint64_t seed,
                                        std::int64_t epoch) const {
    const auto samples = shards_[shard].samples;
    std::vector<std::int64_t> windows(
        (static_cast<std::size_t>(samples + window_ - 1) / static_cast<std::size_t>(window_)));
    std::iota(windows.begin(), windows.end(), 0);
    const auto random = [&](std::uint64_t window) {
      return data::RandomStream(seed, data::RandomPurpose::order,
                                {static_cast<std::uint64_t>(epoch), shard + 1, window});
    };
    if (shuffles) shuffle(windows, random(0));
    std::vector<std::int64_t> order;
    for (const auto window : windows) {
      const auto begin = order.size();
      for (auto i = window * window_; i < std::min(samples, (window + 1) * window_); ++i)
        order.push_back(firsts_[shard] + i);
      if (shuffles) shuffle(std::span(order).subspan(begin), random(static_cast<std::uint64_t>(window) + 1));
    }
    return order;
  }

  std::vector<std::int64_t> whole_order(bool shuffles, std::uint64_t seed, std::int64_t epoch) const {
    std::vector<std::vector<std::int64_t>> orders;
    std::vector<std::int64_t> turns(shards_.size());
    std::iota(turns.begin(), turns.end(), 0);
    if (shuffles)
      shuffle(turns, data::RandomStream(seed, data::RandomPurpose::order, {static_cast<std::uint64_t>(epoch), 0}));
    for (const auto shard : turns)
      orders.push_back(shard_order(static_cast<std::size_t>(shard), shuffles, seed, epoch));
    std::vector<std::int64_t> whole;
    whole.reserve(static_cast<std::size_t>(size_));
    for (std::size_t round = 0; !orders.empty(); ++round) {
      std::erase_if(orders, [round](const auto& order) { return order.size() <= round; });
      for (const auto& order : orders) whole.push_back(order[round]);
    }
    return whole;
  }

  std::shared_ptr<const Stream> stream_;
  const std::int64_t window_;
  std::vector<ShardIndex> shards_;
  std::vector<std::int64_t> firsts_;  // index of each shard's first sample
  std::int64_t size_ = 0;
  mutable WindowCache cache_;
};

}  // namespace

ShardIndex Stream::index(std::int64_t shard, std::int64_t window) const {
  ShardIndex index;
  const auto reader = open(shard, {});
  for (;;) {
    const auto position = reader->position();
    if (!reader->next()) return index;
    if (index.samples % window == 0) index.windows.push_back(position);
    ++index.samples;
  }
}

Batch Stream::collate(std::vector<Sample> samples) const { return stack(std::move(samples)); }

std::shared_ptr<const Dataset> from_stream(std::shared_ptr<const Stream> stream, const StreamOptions& options) {
  if (options.window < 1) {
    fail(ErrorKind::invalid_argument, "stream", "a window has at least 1 sample, not {}", options.window);
  }
  auto dataset = std::make_shared<StreamDataset>(std::move(stream), options);
  if (dataset->size() == 0) fail(ErrorKind::data, "stream", "the stream has no samples");
  return dataset;
}

}  // namespace lockstep::samples
