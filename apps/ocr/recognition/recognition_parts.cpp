// The registration of text recognition's parts: two CRNN models, the data set words, the task and its transforms.
#include <apps/ocr/recognition/recognition_parts.h>

#include <apps/ocr/recognition/crnn.h>
#include <apps/ocr/recognition/recognition_task.h>
#include <apps/ocr/recognition/word_transforms.h>
#include <apps/ocr/recognition/words.h>

#include <utility>

namespace lockstep::ocr {
namespace {

constexpr const char* kTask = "text_recognition";

train::ModelPart model(std::string name, std::string doc, std::shared_ptr<Crnn> (*make)(const CrnnOptions&)) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .options = PartOptions::of(CrnnOptions{}),
          .make = [make](const PartOptions& options) { return make(options.as<CrnnOptions>()); },
          .task = kTask,
          .divisible = false};
}

}  // namespace

void add_recognition_parts(train::Parts& parts) {
  parts.models.push_back(
      model("crnn_resnet34", "reads words: a residual network of 34 layers, LSTM, CTC", crnn_resnet34));
  parts.models.push_back(model("crnn_vgg7", "reads words: seven convolutions, LSTM, CTC", crnn_vgg7));
  parts.data.push_back({.name = "words",
                        .doc = "pictures of words with their texts, from lists and LMDB, as for CRNN",
                        .options = PartOptions::of(WordsOptions{}),
                        .load = [](const PartOptions& options, data::Split split) {
                          return load_words(options.as<WordsOptions>(), split);
                        }});
  parts.tasks.push_back(
      {.name = kTask,
       .doc = "words by CTC; accuracy and normalized edit distance",
       .options = PartOptions::of(RecognitionOptions{}),
       .make = [](const PartOptions& options) { return make_recognition(options.as<RecognitionOptions>()); },
       .measures = {{"accuracy", "infinite_losses", "norm_edit_distance"}}});
  for (auto& transform : word_transforms()) parts.transforms.push_back(std::move(transform));
}

}  // namespace lockstep::ocr
