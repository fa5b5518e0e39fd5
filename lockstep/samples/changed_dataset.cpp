// Balanced sampling: an order of samples with the classes in turn, from shuffled lists of each class.
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>
#include <lockstep/data/sampler.h>
#include <lockstep/samples/changed_dataset.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <utility>

namespace lockstep::samples {
namespace {

class Balanced final : public ChangedDataset {
 public:
  Balanced(std::shared_ptr<const Dataset> dataset, std::vector<std::vector<std::int64_t>> classes)
      : ChangedDataset(std::move(dataset)), classes_(std::move(classes)) {}

  /// The inner order has each index at most once (except padding): index i stands for the (i / classes)-th sample of
  /// class i % classes.
  data::EpochOrder order(const data::ShardedSampler& sampler, std::int64_t epoch) const override {
    const auto inner = dataset().order(sampler, epoch);
    const auto drawn = shuffled(sampler.options(), epoch);
    std::vector<std::int64_t> indices;
    indices.reserve(inner.indices().size());
    for (const auto index : inner.indices()) {
      const auto& of = drawn[static_cast<std::size_t>(index) % drawn.size()];
      indices.push_back(of[static_cast<std::size_t>(index) / drawn.size() % of.size()]);
    }
    const auto batch = inner.steps() > 0 ? std::ssize(inner.batch(0)) : 0;  // the first is the largest
    return {std::move(indices), batch, inner.steps()};
  }

 private:
  std::vector<std::vector<std::int64_t>> shuffled(const data::SamplerOptions& options, std::int64_t epoch) const {
    auto classes = classes_;
    for (std::size_t c = 0; options.shuffle && c < classes.size(); ++c) {
      data::RandomStream random(options.seed, data::RandomPurpose::order,
                                {static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(c)});
      for (std::size_t i = classes[c].size() - 1; i > 0; --i) std::swap(classes[c][i], classes[c][random.below(i + 1)]);
    }
    return classes;
  }

  std::vector<std::vector<std::int64_t>> classes_;  // samples of each class that occurs
};

void log_counts(const Dataset& dataset, const std::map<std::int64_t, std::vector<std::int64_t>>& by_label) {
  constexpr std::size_t kMostShown = 20;
  const auto names = dataset.classes();
  const auto each = static_cast<double>(dataset.size()) / static_cast<double>(by_label.size());
  std::vector<std::string> shown;
  for (const auto& [label, members] : by_label) {
    if (shown.size() == kMostShown) {
      shown.push_back(fmt::format("... ({} classes)", by_label.size()));
      break;
    }
    const auto name =
        label < std::ssize(names) ? cut_text(names[static_cast<std::size_t>(label)]) : std::to_string(label);
    shown.push_back(
        fmt::format("{} has {}, each {:.2f} times", name, members.size(), each / static_cast<double>(members.size())));
  }
  log_info("data.sampling balanced: an epoch has {:.0f} samples of each of {} classes: {}", each, by_label.size(),
           fmt::join(shown, "; "));
}

}  // namespace

void describe_sampling(ConfigFields& fields, std::string& sampling) {
  fields.field("sampling", sampling, one_of({"each", "balanced"}),
               "each: training has every sample once an epoch; balanced: equally many of each class, those of rare "
               "classes several times");
}

std::shared_ptr<const Dataset> with_sampling(std::shared_ptr<const Dataset> dataset, const std::string& sampling,
                                             data::Split split, const std::vector<std::int64_t>& labels) {
  if (sampling != "balanced" || split != data::Split::train || labels.empty()) return dataset;
  std::map<std::int64_t, std::vector<std::int64_t>> by_label;
  for (std::size_t i = 0; i < labels.size(); ++i) by_label[labels[i]].push_back(static_cast<std::int64_t>(i));
  log_counts(*dataset, by_label);
  std::vector<std::vector<std::int64_t>> classes;
  for (auto& [label, members] : by_label) classes.push_back(std::move(members));
  return std::make_shared<Balanced>(std::move(dataset), std::move(classes));
}

}  // namespace lockstep::samples
