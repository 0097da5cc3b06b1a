"""Images are encoded once and sent once per conversation."""

import base64
import io

import pytest
from PIL import Image

from asymspec_agents.errors import MessageError
from smolagents_asymspec.images import ConversationImages, ImageEncoder


def picture(color="red", size=(4, 3), mode="RGB"):
    return Image.new(mode, size, color)


def url(part) -> str:
    return part.wire()["image_url"]["url"]


def test_an_image_is_sent_once_however_often_and_in_whatever_object_it_comes():
    images = ConversationImages(ImageEncoder())
    first, again, other = picture(), picture(), picture("blue")
    assert len(images.parts({"type": "image", "image": first})) == 1
    assert images.parts({"type": "image", "image": first}) == ()
    assert images.parts({"type": "image", "image": again}) == ()
    assert len(images.parts({"type": "image", "image": other})) == 1


def test_the_next_call_sends_it_again_without_encoding_it_again():
    encoder = ImageEncoder()
    image = picture()
    urls = [url(ConversationImages(encoder).parts({"type": "image", "image": image})[0]) for _ in range(3)]
    assert len(set(urls)) == 1
    assert encoder.num_encoded == 1


def test_an_image_that_was_drawn_on_is_another_image():
    encoder = ImageEncoder()
    image = picture()
    before = encoder.url(image)
    image.putpixel((0, 0), (0, 0, 0))
    assert encoder.url(image) != before


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGBA", "CMYK", "I", "F"])
def test_every_mode_becomes_a_png(mode):
    data = base64.b64decode(ImageEncoder().url(Image.new(mode, (2, 2))).partition("base64,")[2])
    assert Image.open(io.BytesIO(data)).size == (2, 2)


def test_palettes_tell_images_apart():
    one, two = Image.new("P", (2, 2)), Image.new("P", (2, 2))
    one.putpalette([1, 2, 3])
    two.putpalette([9, 9, 9])
    encoder = ImageEncoder()
    assert encoder.url(one) != encoder.url(two)


def test_image_urls_keep_their_fields_and_are_sent_once():
    images = ConversationImages(ImageEncoder())
    element = {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}}
    (part,) = images.parts(element)
    assert part.wire() == element
    assert images.parts(element) == ()
    assert len(images.parts({"type": "image_url", "image_url": "https://example.org/b.png"})) == 1


def test_other_forms_of_images():
    class AgentImage:
        def to_raw(self):
            return picture()

    encoder = ImageEncoder()
    assert encoder.url(AgentImage()) == encoder.url(picture())
    assert encoder.url(b"\xff\xd8\xffjpeg").startswith("data:image/jpeg;base64,")
    assert encoder.url("aGVsbG8=") == "data:image/png;base64,aGVsbG8="
    assert encoder.url("https://example.org/a.png") == "https://example.org/a.png"
    with pytest.raises(MessageError, match="an image cannot be a int"):
        encoder.url(5)


def test_the_cache_is_bounded():
    encoder = ImageEncoder(max_cached_bytes=1)
    encoder.url(picture())
    encoder.url(picture())
    assert encoder.num_encoded == 2
