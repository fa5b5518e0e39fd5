// Pictures with the words that were found in them, for users.
#pragma once

#include <apps/ocr/detection/find_boxes.h>
#include <lockstep/train/callback.h>

#include <string>
#include <vector>

namespace lockstep::ocr {

/// Reads a picture file as RGB, uint8, turned by its EXIF orientation. Error(data) naming the file.
cv::Mat read_rgb(const std::string& file);

/// The picture with the outlines of words: found words in green, true words, if given, in red.
cv::Mat drawn_words(const std::string& file, const std::vector<Polygon>& found, const std::vector<Polygon>& truth = {});

/// Writes the ASCII characters of a text beside a word's upper left corner; other characters become `?`.
void write_beside(cv::Mat& picture, const Polygon& word, const std::string& text);

/// A copy of a picture, RGB, uint8.
train::ShownPicture shown(const cv::Mat& picture, std::string name);

/// Pictures in rows, each scaled to fit into a cell of that width, in three columns.
train::ShownPicture contact_sheet(const std::vector<cv::Mat>& pictures, int cell_width);

}  // namespace lockstep::ocr
