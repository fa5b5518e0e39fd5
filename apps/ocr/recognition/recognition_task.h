// The task of reading words: the loss of CTC, accuracy, and the texts with their confidence.
#pragma once

#include <apps/ocr/recognition/dictionary.h>
#include <apps/ocr/recognition/word_distance.h>
#include <lockstep/base/config.h>
#include <lockstep/train/task.h>

#include <memory>
#include <string>

namespace lockstep::ocr {

struct RecognitionOptions {
  DictionaryOptions dictionary{};
  std::string blank = "last";  ///< last or first: the class of CTC's blank
  bool zero_infinity = true;   ///< a word that needs more columns than there are has loss 0, and is counted
  WordFilter filter{};
};
void describe(ConfigFields& fields, RecognitionOptions& options);

/// For the model Crnn and the fields `pictures` and `labels` (texts). Loss: the mean over the words of -log p, in
/// float32. Metrics: `accuracy` and `norm_edit_distance` (word_distance.h), and `infinite_losses`, the number of words
/// to which zero_infinity applies, if there are any. Predicts `text` and `confidence`, and `name`, the picture's file,
/// with the file rec_results.txt in MindOCR's form: name, tab, text.
///
/// In training, the first ten words with an infinite loss are logged with their pictures. Error(data) naming the
/// picture for such a word without zero_infinity; Error(config) if the model's number of classes does not match the
/// dictionary, and for a training word without a character of the dictionary.
std::shared_ptr<train::Task> make_recognition(const RecognitionOptions& options);

}  // namespace lockstep::ocr
