// The task text_detection: words are found and matched in a thread pool while the next batch is computed. Optionally, a
// second model reads the words of predictions.
#include <apps/ocr/detection/text_detection.h>

#include <apps/ocr/detection/draw_words.h>
#include <apps/ocr/detection/match_words.h>
#include <apps/ocr/detection/word_tensors.h>
#include <apps/ocr/reading/word_crops.h>
#include <apps/ocr/reading/word_reader.h>
#include <lockstep/base/error.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/train/task.h>

#include <torch/torch.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::ocr {
namespace {

Dbnet& dbnet_of(torch::nn::Module& model) {
  auto* dbnet = dynamic_cast<Dbnet*>(&model);
  if (dbnet != nullptr) return *dbnet;
  fail(ErrorKind::config, "task.name",
       "text_detection is the task of model.name dbnet, and the run's model is another");
}

TextTargets targets_of(const samples::Batch& batch) {
  const auto field = [&](const char* name) {
    const auto found = batch.tensors.find(name);
    return found == batch.tensors.end() ? torch::Tensor() : found->second;
  };
  if (!field(kTextMap).defined()) {
    fail(ErrorKind::config, "data", "the batches have no field '{}': add text_shrink_map to the transforms", kTextMap);
  }
  return {field(kTextMap), field(kTextMask), field(kThresholdMap), field(kThresholdMask)};
}

const std::vector<at::Tensor>& list_of(const samples::Batch& batch, const char* name) {
  const auto found = batch.lists.find(name);
  if (found != batch.lists.end()) return found->second;
  fail(ErrorKind::config, "data", "the batches have no field '{}': data.name text_boxes gives it", name);
}

std::vector<Frame> frames_of(const samples::Batch& batch) {
  const auto found = batch.tensors.find(kFrame);
  if (found == batch.tensors.end()) {
    fail(ErrorKind::config, "data.eval_transforms",
         "have to contain text_resize, which relates the pixels of a map to those of the picture");
  }
  const auto numbers = found->second.to(torch::kCPU, torch::kDouble).contiguous();
  std::vector<Frame> frames;
  for (std::int64_t i = 0; i < numbers.size(0); ++i) {
    const auto* row = numbers.data_ptr<double>() + 4 * i;
    frames.push_back({row[0], row[1], row[2], row[3]});
  }
  return frames;
}

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

nlohmann::ordered_json json_of(const FoundWord& word) {
  auto points = nlohmann::ordered_json::array();
  for (const auto& corner : word.polygon) {
    points.push_back({static_cast<std::int64_t>(corner.x), static_cast<std::int64_t>(corner.y)});
  }
  return {{"points", std::move(points)}, {"score", word.score}};
}

Polygon polygon_in(const nlohmann::json& word) {
  Polygon polygon;
  for (const auto& point : word["points"]) polygon.emplace_back(point[0].get<double>(), point[1].get<double>());
  return polygon;
}

std::vector<Polygon> readable_of(const Words& words) {
  std::vector<Polygon> polygons;
  for (const auto& word : words) {
    if (!word.ignored) polygons.push_back(word.polygon);
  }
  return polygons;
}

/// A picture of an evaluation that is to be shown.
struct Seen {
  std::string file;
  std::vector<Polygon> found;
  std::vector<Polygon> truth;
};

constexpr int kSheetCell = 480;

class TextDetection final : public train::Task {
 public:
  explicit TextDetection(TextDetectionOptions options)
      : options_(std::move(options)), pool_(static_cast<int>(options_.workers)) {
    cv::setNumThreads(0);  // the threads are the loader's and those of pool_
  }

  train::Outcome run(torch::nn::Module& model, const samples::Batch& batch, bool measures) override {
    const auto maps = dbnet_of(model).forward(batch[samples::kPictures]);
    if (measures) measure(maps.probability, batch);
    train::Outcome outcome{.loss = {}};
    outcome.loss_sums = dbnet_sums(maps, targets_of(batch), options_.loss);
    return outcome;
  }

  std::int64_t loss_sums() const override { return kDbnetSums; }
  at::Tensor loss_of(const at::Tensor& sums) const override { return dbnet_loss(sums, options_.loss); }

  train::Sums late_sums() override {
    pool_.wait();
    const auto counts = std::exchange(counts_, {});
    measured_ = 0;
    return {{"matched", {static_cast<double>(counts.matched), 1}},
            {"truth", {static_cast<double>(counts.truth), 1}},
            {"found", {static_cast<double>(counts.found), 1}}};
  }

  train::Values metrics(const train::Sums& sums) const override {
    const auto rates = rates_of(sums.at("matched").sum, sums.at("truth").sum, sums.at("found").sum);
    return {{"precision", rates.precision}, {"recall", rates.recall}, {"hmean", rates.hmean}};
  }

  train::Prediction predict(torch::nn::Module& model, const samples::Batch& batch) override {
    const auto maps = dbnet_of(model).forward(batch[samples::kPictures]).probability.to(torch::kCPU).contiguous();
    const auto frames = frames_of(batch);
    std::vector<std::vector<FoundWord>> words(frames.size());
    for (std::size_t i = 0; i < frames.size(); ++i) {
      pool_.add([this, &words, i, map = maps[static_cast<std::int64_t>(i)], frame = frames[i]] {
        words[i] = find_words(to_mat(map), frame, options_.find);
      });
    }
    pool_.wait();
    const auto names = batch.texts.find(samples::kNames);
    train::Prediction prediction;
    for (std::size_t i = 0; i < words.size(); ++i) {
      auto list = nlohmann::ordered_json::array();
      for (const auto& word : words[i]) list.push_back(json_of(word));
      if (options_.read_config && names != batch.texts.end()) add_texts(list, names->second[i], words[i]);
      prediction.texts["words"].push_back(list.dump());
    }
    if (names != batch.texts.end()) prediction.texts.emplace("picture", names->second);
    return prediction;
  }

  std::map<std::string, std::string, std::less<>> files(const train::Prediction& all) const override {
    const auto names = all.texts.find("picture");
    if (names == all.texts.end()) return {};
    std::string found, read;
    for (std::size_t i = 0; i < names->second.size(); ++i) {
      auto polygons = nlohmann::json::array(), texts = nlohmann::json::array();
      for (const auto& word : nlohmann::json::parse(all.texts.at("words")[i])) {
        polygons.push_back(word["points"]);
        if (word.contains("transcription")) {
          texts.push_back({{"transcription", word["transcription"]}, {"points", word["points"]}});
        }
      }
      found += file_name(names->second[i]) + '\t' + polygons.dump() + '\n';
      read += file_name(names->second[i]) + '\t' + texts.dump() + '\n';
    }
    std::map<std::string, std::string, std::less<>> files{{"det_results.txt", std::move(found)}};
    if (options_.read_config) files.emplace("system_results.txt", std::move(read));
    return files;
  }

  void leave_files(const train::Prediction& all, const std::filesystem::path& folder, std::int64_t rank,
                   std::int64_t ranks) const override {
    const auto names = all.texts.find("picture");
    if (names == all.texts.end()) return;
    for (auto i = static_cast<std::size_t>(rank); i < names->second.size(); i += static_cast<std::size_t>(ranks)) {
      const auto words = nlohmann::json::parse(all.texts.at("words")[i]);
      std::vector<Polygon> polygons;
      for (const auto& word : words) polygons.push_back(polygon_in(word));
      auto picture = drawn_words(names->second[i], polygons);
      for (std::size_t k = 0; k < polygons.size(); ++k) {
        if (words[k].contains("transcription")) write_beside(picture, polygons[k], words[k]["transcription"]);
      }
      const auto name = std::filesystem::path(names->second[i]).stem().string() + "_words";
      train::write_png(folder / (name + ".png"), shown(picture, name));
    }
  }

  std::vector<train::ShownPicture> pictures() override {
    std::vector<cv::Mat> drawn;
    for (const auto& [number, seen] : seen_) drawn.push_back(drawn_words(seen.file, seen.found, seen.truth));
    seen_.clear();
    if (drawn.empty()) return {};
    return {contact_sheet(drawn, kSheetCell)};
  }

  at::Tensor nothing(torch::nn::Module& model, const samples::Batch& batch) override {
    const auto maps = dbnet_of(model).forward(batch[samples::kPictures]);
    return maps.probability.sum() + maps.threshold.sum() + maps.binary.sum();
  }

 private:
  void add_texts(nlohmann::ordered_json& list, const std::string& file, const std::vector<FoundWord>& words) {
    if (!reader_) reader_.emplace(*options_.read_config, *options_.read_weights);
    const auto photograph = read_rgb(file);
    std::vector<cv::Mat> cuts;
    for (const auto& word : words) cuts.push_back(cut_word(photograph, word.polygon));
    const auto texts = reader_->read(cuts);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      list[i]["transcription"] = texts[i].text;
      list[i]["confidence"] = texts[i].confidence;
    }
  }

  /// Runs on threads, while the next batch is computed.
  void measure(const at::Tensor& probability, const samples::Batch& batch) {
    const auto maps = probability.to(torch::kCPU).contiguous();
    const auto frames = frames_of(batch);
    const auto& polygons = list_of(batch, kTruth);
    const auto& ignored = list_of(batch, kTruthIgnored);
    const auto names = batch.texts.find(samples::kNames);
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const auto number = measured_++;
      const bool shown = number < options_.contact_sheet && names != batch.texts.end();
      pool_.add([this, number, map = maps[static_cast<std::int64_t>(i)], frame = frames[i],
                 file = shown ? names->second[i] : std::string(),
                 truth = words_of(polygons[i].cpu(), ignored[i].cpu())] {
        std::vector<Polygon> found;
        for (auto& word : find_words(to_mat(map), frame, options_.find)) found.push_back(std::move(word.polygon));
        const auto counts = match_words(truth, found);
        const std::lock_guard lock(mutex_);
        counts_.matched += counts.matched;
        counts_.truth += counts.truth;
        counts_.found += counts.found;
        if (!file.empty()) seen_[number] = {file, std::move(found), readable_of(truth)};
      });
    }
  }

  const TextDetectionOptions options_;
  std::optional<WordReader> reader_;
  std::mutex mutex_;
  MatchCounts counts_;
  std::map<std::int64_t, Seen> seen_;
  std::int64_t measured_ = 0;  ///< pictures of the current evaluation
  train::WorkPool pool_;       // last: its threads use the members above
};

}  // namespace

void describe(ConfigFields& fields, TextDetectionOptions& options) {
  describe(fields, options.loss);
  describe(fields, options.find);
  fields.field("workers", options.workers, between(0, 256),
               "threads of each rank that find words in maps while the next are computed; 0: the training thread");
  fields.field("contact_sheet", options.contact_sheet, between(0, 100),
               "pictures of evaluation that work_dir/pictures/ and TensorBoard get with their words after each one");
  fields.field("read_config", options.read_config, a_path(),
               "configuration of a model that reads the words of `lockstep predict`; null: they are found only");
  fields.field("read_weights", options.read_weights, a_path(), "its weights: any file that model.weights takes");
}

std::shared_ptr<train::Task> make_text_detection(const TextDetectionOptions& options) {
  if (options.read_config.has_value() != options.read_weights.has_value()) {
    fail(ErrorKind::config, options.read_config ? "task.read_weights" : "task.read_config",
         "is missing: a model that reads words has both a configuration and weights");
  }
  return std::make_shared<TextDetection>(options);
}

}  // namespace lockstep::ocr
