// The data set words: several sources one after the other, with the training words filtered by the rules.
#include <apps/ocr/recognition/words.h>

#include <apps/ocr/recognition/word_source.h>
#include <lockstep/base/error.h>
#include <lockstep/data/files/items.h>
#include <lockstep/samples/pictures.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace lockstep::ocr {
namespace {

using samples::Sample;

/// A source, and the indices of its words that are used.
struct UsedWords {
  std::unique_ptr<WordSource> source;
  std::vector<std::int64_t> indices;
};

class Words final : public samples::Dataset {
 public:
  Words(std::vector<UsedWords> sources, const samples::PictureOptions& pictures)
      : sources_(std::move(sources)), pictures_(pictures) {
    std::int64_t size = 0;
    for (const auto& each : sources_) ends_.push_back(size += static_cast<std::int64_t>(each.indices.size()));
  }

  std::int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }

  Sample get(std::int64_t index, const samples::Chance&) const override {
    const auto which = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
    const auto& [source, indices] = sources_[which];
    const auto word = indices[static_cast<std::size_t>(index - (which == 0 ? 0 : ends_[which - 1]))];
    Sample sample;
    sample.tensors.emplace(samples::kPictures, samples::to_tensor(data::read_or_name_way_out(leaves_out_errors(), [&] {
                             return source->picture(word, samples::decoding_of(pictures_));
                           })));
    sample.texts.emplace(samples::kLabels, source->label(word));
    sample.texts.emplace(samples::kNames, source->name(word));
    return sample;
  }

  samples::Batch collate(std::vector<Sample> samples) const override {
    return samples::collate_pictures(std::move(samples), pictures_);
  }
  bool leaves_out_errors() const override { return pictures_.on_error == "skip"; }

 private:
  std::vector<UsedWords> sources_;
  std::vector<std::int64_t> ends_;  // samples of the sources up to and with each
  samples::PictureOptions pictures_;
};

/// The words of a source that `rules` keep; without rules all of them.
std::vector<std::int64_t> used_words(const WordSource& source, WordRules* rules, data::BadItems& bad) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < source.size(); ++i) {
    bad.try_to([&] {
      const auto label = source.label(i);
      if (rules == nullptr || rules->keeps(label, [&] { return source.place(i); })) indices.push_back(i);
    });
  }
  bad.report(source.size());
  return indices;
}

/// `root` if it has `path`, else the only folder up to two levels below it that has.
std::filesystem::path root_with(const std::filesystem::path& root, const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code code;
  if (root.empty() || fs::exists(samples::in_folder(root, path), code)) return root;
  std::vector<fs::path> found;
  for (auto entry = fs::recursive_directory_iterator(root, code); !code && entry != fs::recursive_directory_iterator();
       entry.increment(code)) {
    const bool is_own = !data::is_left_by_programs(entry->path());
    if (entry.depth() == 1 || !is_own) entry.disable_recursion_pending();
    std::error_code ignored;
    if (is_own && entry->is_directory(ignored) && fs::exists(entry->path() / path, ignored))
      found.push_back(entry->path());
  }
  return found.size() == 1 ? found.front() : root;
}

}  // namespace

void describe(ConfigFields& fields, WordsOptions& options) {
  fields.field("root", options.root, a_path(),
               "folder that the paths of train, eval and their images are relative to, or the only one up to two "
               "levels below it that has them");
  fields.field("train", options.train, required(a_path()),
               "list files of names and words, and folders with LMDB databases in them or below them");
  fields.field("eval", options.eval, a_path(), "the same for evaluation; empty: no evaluation");
  fields.field("train_images", options.train_images, a_path(), "folder of the pictures that the lists of train name");
  fields.field("eval_images", options.eval_images, a_path(), "the same for eval");
  fields.field("labels", options.labels, one_of({"tab", "icdar"}),
               "lines of a list: name, tab, word; or as ICDAR writes them: name, \"word\"");
  describe_dictionary(fields, options.dictionary);
  describe_limits(fields, options.limits);
  samples::describe_pictures(fields, options.pictures);
}

std::shared_ptr<const samples::Dataset> load_words(const WordsOptions& options, data::Split split) {
  const bool trains = split == data::Split::train;
  const auto& paths = trains ? options.train : options.eval;
  const auto* key = trains ? "data.train" : "data.eval";
  if (paths.empty()) {
    if (!trains) return nullptr;
    fail(ErrorKind::config, key, "is an empty list; give list files, or folders of LMDB databases");
  }
  const auto root = root_with(options.root, paths.front());
  const Dictionary dictionary(options.dictionary, "data");
  WordRules rules(options.limits, dictionary);
  std::vector<UsedWords> sources;
  const bool skips = options.pictures.on_error == "skip";
  for (const auto& each : paths) {
    const auto path = samples::in_folder(root, each);
    const auto images = samples::in_folder(root, trains ? options.train_images : options.eval_images);
    auto source = open_words({path, images, options.labels, skips, key});
    data::BadItems bad(skips, "words of " + path.string());
    auto indices = used_words(*source, trains ? &rules : nullptr, bad);
    sources.push_back({std::move(source), std::move(indices)});
  }
  rules.report(key);
  return std::make_shared<Words>(std::move(sources), options.pictures);
}

}  // namespace lockstep::ocr
