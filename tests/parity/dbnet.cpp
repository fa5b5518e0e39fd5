// What the Python tests ask of DBNet:
//   parity_dbnet gradients JOB   one forward, loss and backward with the job's weights; writes all that came of it
//   parity_dbnet targets JOB     the maps of a label line for a picture of `height` x `width`
//   parity_dbnet words JOB       the words in each map of a file, as lists of whole numbers
//   parity_dbnet steps JOB       a picture and its words after each step of geometry
#include <apps/ocr/detection/dbnet.h>
#include <apps/ocr/detection/dbnet_loss.h>
#include <apps/ocr/detection/find_boxes.h>
#include <apps/ocr/detection/picture_geometry.h>
#include <apps/ocr/detection/text_labels.h>
#include <apps/ocr/detection/word_tensors.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/train/named_tensors.h>

#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace {

using namespace lockstep;
using nlohmann::json;

state::NamedTensors read(const json& job, const char* key) {
  return state::load_safetensors(job.at(key).get<std::string>());
}
void write(const json& job, const state::NamedTensors& tensors) {
  state::save_safetensors(job.at("out").get<std::string>(), tensors);
}

void write_gradients(const json& job) {
  ocr::Dbnet model({.depth = job.at("depth"), .channels = job.at("channels")});
  train::load_weights(model, job.at("weights").get<std::string>());
  const auto batch = read(job, "batch");
  const auto maps = model.forward(batch.at("pictures"));
  const ocr::TextTargets targets{batch.at("text"), batch.at("mask"), batch.at("threshold"), batch.at("threshold_mask")};
  const auto loss = ocr::dbnet_loss(ocr::dbnet_sums(maps, targets, {}), {});
  loss.backward();
  state::NamedTensors results = {{"probability", maps.probability},
                                 {"threshold", maps.threshold},
                                 {"binary", maps.binary},
                                 {"loss", loss.to(torch::kFloat)}};
  for (const auto& item : model.named_parameters()) results["gradient." + item.key()] = item.value().grad();
  for (const auto& item : model.named_buffers()) results["buffer." + item.key()] = item.value();
  model.eval();
  results["eval_probability"] = model.forward(batch.at("pictures")).probability;
  write(job, results);
}

void write_targets(const json& job) {
  auto words = ocr::parse_label_line("picture\t" + job.at("words").dump()).words;
  const int height = job.at("height"), width = job.at("width");
  const auto text = ocr::shrink_map(words, height, width, {});
  const auto border = ocr::border_map(words, height, width, {});
  write(job, {{"text", ocr::to_tensor(text.text)},
              {"mask", ocr::to_tensor(text.mask)},
              {"threshold", ocr::to_tensor(border.threshold)},
              {"threshold_mask", ocr::to_tensor(border.mask)},
              {"ignored", ocr::ignored_of(words)}});
}

void write_words(const json& job) {
  const ocr::Frame frame{job.at("height"), job.at("width"), job.at("y_factor"), job.at("x_factor")};
  auto all = json::object();
  for (const auto& [name, map] : read(job, "maps")) {
    auto& words = all[name] = json::array();
    for (const auto& word : ocr::find_words(ocr::to_mat(map), frame, {.shape = job.at("shape")})) {
      auto corners = json::array();
      for (const auto& corner : word.polygon) corners.push_back({corner.x, corner.y});
      words.push_back({{"points", corners}, {"score", word.score}});
    }
  }
  std::ofstream(job.at("out").get<std::string>()) << all.dump();
}

void write_steps(const json& job) {
  const auto given = read(job, "picture");
  state::NamedTensors results;
  const auto after = [&](const std::string& name, const std::function<void(ocr::TextPicture&)>& step) {
    ocr::TextPicture picture{ocr::to_mat(given.at("pixels")).clone(),
                             ocr::words_of(given.at("polygons"), given.at("ignored"))};
    step(picture);
    results[name + ".pixels"] = ocr::to_tensor(picture.pixels);
    results[name + ".polygons"] = ocr::polygons_of(picture.words);
  };
  after("mirror", [](auto& picture) { ocr::mirror(picture); });
  after("rotate", [](auto& picture) { ocr::rotate(picture, -7); });
  after("scale", [](auto& picture) { ocr::scale(picture, 1.37); });
  after("crop", [](auto& picture) { ocr::crop(picture, {37, 21, 333, 240}, {.height = 160, .width = 320}, 1); });
  write(job, results);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) return 2;
    torch::set_num_threads(1);
    const std::string what = argv[1];
    const auto job = json::parse(std::ifstream(argv[2]));
    if (what == "gradients") write_gradients(job);
    if (what == "targets") write_targets(job);
    if (what == "words") write_words(job);
    if (what == "steps") write_steps(job);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "parity_dbnet: %s\n", error.what());
    return 1;
  }
}
