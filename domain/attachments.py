"""Attachments of a message: images and documents, in the shapes of the Messages API."""

from __future__ import annotations

from base64 import b64encode
from typing import Self, TypeAlias

from reenact.domain.plain import JsonObject
from reenact.domain.structs import Frozen


class Base64Source(Frozen, tag="base64"):
    """The bytes themselves, as base64 text."""

    media_type: str
    data: str


class UrlSource(Frozen, tag="url"):
    """A public address from which the API fetches the file for each request; the content there should not change."""

    url: str


class FileSource(Frozen, tag="file"):
    """A file that was uploaded through the Files API."""

    file_id: str


class TextSource(Frozen, tag="text"):
    """A document that is plain text."""

    data: str
    media_type: str = "text/plain"


class ContentSource(Frozen, tag="content"):
    """A document in pieces: text and image blocks as plain mappings; citations refer to a piece by its index."""

    content: str | tuple[JsonObject, ...]


ImageSource: TypeAlias = Base64Source | UrlSource | FileSource
DocumentSource: TypeAlias = Base64Source | UrlSource | FileSource | TextSource | ContentSource


class Citations(Frozen):
    """Whether the answer cites the document."""

    enabled: bool = False


class ImageBlock(Frozen, tag="image"):
    """An image: JPEG, PNG, GIF or WebP."""

    source: ImageSource

    @classmethod
    def from_bytes(cls, data: bytes, media_type: str) -> Self:
        """Return the block for an image file's content, such as that of an `image/png`."""
        return cls(Base64Source(media_type, b64encode(data).decode()))

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Return the block for an image at a public address."""
        return cls(UrlSource(url))

    @classmethod
    def from_file(cls, file_id: str) -> Self:
        """Return the block for an image that was uploaded through the Files API."""
        return cls(FileSource(file_id))


class DocumentBlock(Frozen, tag="document", omit_defaults=True):
    """A document. The model sees its title and its context, but does not cite from them."""

    source: DocumentSource
    title: str | None = None
    context: str | None = None
    citations: Citations | None = None

    @classmethod
    def from_text(
        cls, text: str, *, title: str | None = None, context: str | None = None, citations: bool = False
    ) -> Self:
        """Return the block for a plain text."""
        return cls(TextSource(text), title, context, _citations(citations=citations))

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        media_type: str = "application/pdf",
        *,
        title: str | None = None,
        context: str | None = None,
        citations: bool = False,
    ) -> Self:
        """Return the block for a file's content; the API takes PDF files."""
        source = Base64Source(media_type, b64encode(data).decode())
        return cls(source, title, context, _citations(citations=citations))

    @classmethod
    def from_url(
        cls, url: str, *, title: str | None = None, context: str | None = None, citations: bool = False
    ) -> Self:
        """Return the block for a PDF file at a public address."""
        return cls(UrlSource(url), title, context, _citations(citations=citations))

    @classmethod
    def from_file(
        cls, file_id: str, *, title: str | None = None, context: str | None = None, citations: bool = False
    ) -> Self:
        """Return the block for a file that was uploaded through the Files API."""
        return cls(FileSource(file_id), title, context, _citations(citations=citations))


def _citations(*, citations: bool) -> Citations | None:
    return Citations(enabled=True) if citations else None
