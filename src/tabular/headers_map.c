#include "tabular/headers_map.h"

#include <assert.h>
#include <stdlib.h>

#define KNOWN_MAX 40 /* bytes of the longest known name, folded */

static const char *const names[DF_HEADER_COUNT] = {
    [DF_HEADER_PHONE] = "PhoneNumber",
    [DF_HEADER_ORIGIN] = "Origin",
    [DF_HEADER_PROPERTY] = "PropertyContextJson",
    [DF_HEADER_LEAD_CONTEXT] = "LeadContextJson",
    [DF_HEADER_AREA] = "AreaCode",
    [DF_HEADER_NAME] = "Name",
    [DF_HEADER_EMAIL] = "Email",
    [DF_HEADER_DOCUMENT] = "Document",
    [DF_HEADER_BIRTH_DATE] = "BirthDate",
    [DF_HEADER_COMPANY] = "Company",
    [DF_HEADER_ADDRESS] = "Address",
    [DF_HEADER_CITY] = "City",
    [DF_HEADER_STATE] = "State",
    [DF_HEADER_ZIP_CODE] = "ZipCode",
    [DF_HEADER_MESSAGE] = "Message",
    [DF_HEADER_NOTES] = "Notes",
    [DF_HEADER_CAMPAIGN] = "Campaign",
    [DF_HEADER_INTEREST] = "Interest",
    [DF_HEADER_BUDGET] = "Budget",
};

/* Sorted by bytes, for bsearch. */
const struct df_known_header df_known_headers[] = {
    {"additionaldata", DF_HEADER_LEAD_CONTEXT},
    {"additionalinfo", DF_HEADER_LEAD_CONTEXT},
    {"address", DF_HEADER_ADDRESS},
    {"aniversario", DF_HEADER_BIRTH_DATE},
    {"anotacoes", DF_HEADER_NOTES},
    {"areacode", DF_HEADER_AREA},
    {"birthdate", DF_HEADER_BIRTH_DATE},
    {"birthday", DF_HEADER_BIRTH_DATE},
    {"budget", DF_HEADER_BUDGET},
    {"businessphone", DF_HEADER_PHONE},
    {"campaign", DF_HEADER_CAMPAIGN},
    {"campaignname", DF_HEADER_CAMPAIGN},
    {"campanha", DF_HEADER_CAMPAIGN},
    {"campanhademarketing", DF_HEADER_CAMPAIGN},
    {"campospersonalizados", DF_HEADER_LEAD_CONTEXT},
    {"canal", DF_HEADER_ORIGIN},
    {"canaldeentrada", DF_HEADER_ORIGIN},
    {"canaldeorigem", DF_HEADER_ORIGIN},
    {"canalorigem", DF_HEADER_ORIGIN},
    {"cel", DF_HEADER_PHONE},
    {"cell", DF_HEADER_PHONE},
    {"cellnumber", DF_HEADER_PHONE},
    {"cellphone", DF_HEADER_PHONE},
    {"cellphonenumber", DF_HEADER_PHONE},
    {"celular", DF_HEADER_PHONE},
    {"celular1", DF_HEADER_PHONE},
    {"celular2", DF_HEADER_PHONE},
    {"celularcliente", DF_HEADER_PHONE},
    {"celularcomddd", DF_HEADER_PHONE},
    {"celularcontato", DF_HEADER_PHONE},
    {"celulardecontato", DF_HEADER_PHONE},
    {"celulardocliente", DF_HEADER_PHONE},
    {"celulardolead", DF_HEADER_PHONE},
    {"celulares", DF_HEADER_PHONE},
    {"celularlead", DF_HEADER_PHONE},
    {"celularprincipal", DF_HEADER_PHONE},
    {"celularwhats", DF_HEADER_PHONE},
    {"celularwhatsapp", DF_HEADER_PHONE},
    {"cep", DF_HEADER_ZIP_CODE},
    {"channel", DF_HEADER_ORIGIN},
    {"cidade", DF_HEADER_CITY},
    {"city", DF_HEADER_CITY},
    {"cliente", DF_HEADER_NAME},
    {"clientname", DF_HEADER_NAME},
    {"clientphone", DF_HEADER_PHONE},
    {"cnpj", DF_HEADER_DOCUMENT},
    {"codigoddd", DF_HEADER_AREA},
    {"codigodearea", DF_HEADER_AREA},
    {"codigopostal", DF_HEADER_ZIP_CODE},
    {"comentario", DF_HEADER_NOTES},
    {"comentarios", DF_HEADER_NOTES},
    {"comment", DF_HEADER_NOTES},
    {"comments", DF_HEADER_NOTES},
    {"company", DF_HEADER_COMPANY},
    {"companyname", DF_HEADER_COMPANY},
    {"contactemail", DF_HEADER_EMAIL},
    {"contactname", DF_HEADER_NAME},
    {"contactnumber", DF_HEADER_PHONE},
    {"contactphone", DF_HEADER_PHONE},
    {"context", DF_HEADER_LEAD_CONTEXT},
    {"contexto", DF_HEADER_LEAD_CONTEXT},
    {"contextodoimovel", DF_HEADER_PROPERTY},
    {"contextodolead", DF_HEADER_LEAD_CONTEXT},
    {"correioeletronico", DF_HEADER_EMAIL},
    {"cpf", DF_HEADER_DOCUMENT},
    {"cpfcnpj", DF_HEADER_DOCUMENT},
    {"cpfoucnpj", DF_HEADER_DOCUMENT},
    {"customeremail", DF_HEADER_EMAIL},
    {"customername", DF_HEADER_NAME},
    {"customerphone", DF_HEADER_PHONE},
    {"customfields", DF_HEADER_LEAD_CONTEXT},
    {"dadosadicionais", DF_HEADER_LEAD_CONTEXT},
    {"dadosdoimovel", DF_HEADER_PROPERTY},
    {"dadosdolead", DF_HEADER_LEAD_CONTEXT},
    {"dadosimovel", DF_HEADER_PROPERTY},
    {"datadenascimento", DF_HEADER_BIRTH_DATE},
    {"datanasc", DF_HEADER_BIRTH_DATE},
    {"datanascimento", DF_HEADER_BIRTH_DATE},
    {"dateofbirth", DF_HEADER_BIRTH_DATE},
    {"ddd", DF_HEADER_AREA},
    {"dddcelular", DF_HEADER_PHONE},
    {"dddecelular", DF_HEADER_PHONE},
    {"dddetelefone", DF_HEADER_PHONE},
    {"dddtelefone", DF_HEADER_PHONE},
    {"descricaodoimovel", DF_HEADER_PROPERTY},
    {"detalhesdoimovel", DF_HEADER_PROPERTY},
    {"dob", DF_HEADER_BIRTH_DATE},
    {"document", DF_HEADER_DOCUMENT},
    {"documentnumber", DF_HEADER_DOCUMENT},
    {"documento", DF_HEADER_DOCUMENT},
    {"dtnasc", DF_HEADER_BIRTH_DATE},
    {"dtnascimento", DF_HEADER_BIRTH_DATE},
    {"email", DF_HEADER_EMAIL},
    {"email1", DF_HEADER_EMAIL},
    {"emailaddress", DF_HEADER_EMAIL},
    {"emailcliente", DF_HEADER_EMAIL},
    {"emailcontato", DF_HEADER_EMAIL},
    {"emaildecontato", DF_HEADER_EMAIL},
    {"emaildocliente", DF_HEADER_EMAIL},
    {"emaildolead", DF_HEADER_EMAIL},
    {"emaillead", DF_HEADER_EMAIL},
    {"empreendimento", DF_HEADER_PROPERTY},
    {"empresa", DF_HEADER_COMPANY},
    {"endereco", DF_HEADER_ADDRESS},
    {"enderecocompleto", DF_HEADER_ADDRESS},
    {"enderecodeemail", DF_HEADER_EMAIL},
    {"enderecoeletronico", DF_HEADER_EMAIL},
    {"estado", DF_HEADER_STATE},
    {"extra", DF_HEADER_LEAD_CONTEXT},
    {"extras", DF_HEADER_LEAD_CONTEXT},
    {"faixadepreco", DF_HEADER_BUDGET},
    {"fone", DF_HEADER_PHONE},
    {"fone1", DF_HEADER_PHONE},
    {"fone2", DF_HEADER_PHONE},
    {"fonecelular", DF_HEADER_PHONE},
    {"fonecliente", DF_HEADER_PHONE},
    {"fonecomercial", DF_HEADER_PHONE},
    {"fonecontato", DF_HEADER_PHONE},
    {"foneprincipal", DF_HEADER_PHONE},
    {"foneresidencial", DF_HEADER_PHONE},
    {"fonewhatsapp", DF_HEADER_PHONE},
    {"fonte", DF_HEADER_ORIGIN},
    {"fontedolead", DF_HEADER_ORIGIN},
    {"fontelead", DF_HEADER_ORIGIN},
    {"fullname", DF_HEADER_NAME},
    {"fullphone", DF_HEADER_PHONE},
    {"homephone", DF_HEADER_PHONE},
    {"imovel", DF_HEADER_PROPERTY},
    {"imoveldeinteresse", DF_HEADER_PROPERTY},
    {"imovelinteresse", DF_HEADER_PROPERTY},
    {"informacoesadicionais", DF_HEADER_LEAD_CONTEXT},
    {"informacoesdoimovel", DF_HEADER_PROPERTY},
    {"interesse", DF_HEADER_INTEREST},
    {"interesses", DF_HEADER_INTEREST},
    {"interest", DF_HEADER_INTEREST},
    {"interestedin", DF_HEADER_INTEREST},
    {"leadcontext", DF_HEADER_LEAD_CONTEXT},
    {"leadcontextjson", DF_HEADER_LEAD_CONTEXT},
    {"leademail", DF_HEADER_EMAIL},
    {"leadjson", DF_HEADER_LEAD_CONTEXT},
    {"leadmessage", DF_HEADER_MESSAGE},
    {"leadname", DF_HEADER_NAME},
    {"leadorigin", DF_HEADER_ORIGIN},
    {"leadphone", DF_HEADER_PHONE},
    {"leadsource", DF_HEADER_ORIGIN},
    {"listing", DF_HEADER_PROPERTY},
    {"logradouro", DF_HEADER_ADDRESS},
    {"mail", DF_HEADER_EMAIL},
    {"mensagem", DF_HEADER_MESSAGE},
    {"mensagemdocliente", DF_HEADER_MESSAGE},
    {"mensagemdolead", DF_HEADER_MESSAGE},
    {"message", DF_HEADER_MESSAGE},
    {"metadata", DF_HEADER_LEAD_CONTEXT},
    {"midia", DF_HEADER_ORIGIN},
    {"midiadeorigem", DF_HEADER_ORIGIN},
    {"midiaorigem", DF_HEADER_ORIGIN},
    {"mobile", DF_HEADER_PHONE},
    {"mobilenumber", DF_HEADER_PHONE},
    {"mobilephone", DF_HEADER_PHONE},
    {"movel", DF_HEADER_PHONE},
    {"msg", DF_HEADER_MESSAGE},
    {"msisdn", DF_HEADER_PHONE},
    {"municipio", DF_HEADER_CITY},
    {"name", DF_HEADER_NAME},
    {"nascimento", DF_HEADER_BIRTH_DATE},
    {"ncelular", DF_HEADER_PHONE},
    {"ndetelefone", DF_HEADER_PHONE},
    {"nocelular", DF_HEADER_PHONE},
    {"nodecelular", DF_HEADER_PHONE},
    {"nodetelefone", DF_HEADER_PHONE},
    {"nome", DF_HEADER_NAME},
    {"nomecliente", DF_HEADER_NAME},
    {"nomecompleto", DF_HEADER_NAME},
    {"nomecontato", DF_HEADER_NAME},
    {"nomedacampanha", DF_HEADER_CAMPAIGN},
    {"nomedaempresa", DF_HEADER_COMPANY},
    {"nomedocliente", DF_HEADER_NAME},
    {"nomedocontato", DF_HEADER_NAME},
    {"nomedolead", DF_HEADER_NAME},
    {"nomelead", DF_HEADER_NAME},
    {"notas", DF_HEADER_NOTES},
    {"note", DF_HEADER_NOTES},
    {"notelefone", DF_HEADER_PHONE},
    {"notes", DF_HEADER_NOTES},
    {"nowhatsapp", DF_HEADER_PHONE},
    {"nrcelular", DF_HEADER_PHONE},
    {"nrotelefone", DF_HEADER_PHONE},
    {"nrtelefone", DF_HEADER_PHONE},
    {"ntelefone", DF_HEADER_PHONE},
    {"numcelular", DF_HEADER_PHONE},
    {"numerocelular", DF_HEADER_PHONE},
    {"numerodecelular", DF_HEADER_PHONE},
    {"numerodecontato", DF_HEADER_PHONE},
    {"numerodetelefone", DF_HEADER_PHONE},
    {"numerodocelular", DF_HEADER_PHONE},
    {"numerododocumento", DF_HEADER_DOCUMENT},
    {"numerodotelefone", DF_HEADER_PHONE},
    {"numerodowhatsapp", DF_HEADER_PHONE},
    {"numerotelefone", DF_HEADER_PHONE},
    {"numerowhatsapp", DF_HEADER_PHONE},
    {"numtelefone", DF_HEADER_PHONE},
    {"obs", DF_HEADER_NOTES},
    {"observacao", DF_HEADER_NOTES},
    {"observacoes", DF_HEADER_NOTES},
    {"orcamento", DF_HEADER_BUDGET},
    {"orcamentodisponivel", DF_HEADER_BUDGET},
    {"origem", DF_HEADER_ORIGIN},
    {"origemcontato", DF_HEADER_ORIGIN},
    {"origemdocontato", DF_HEADER_ORIGIN},
    {"origemdolead", DF_HEADER_ORIGIN},
    {"origemlead", DF_HEADER_ORIGIN},
    {"origin", DF_HEADER_ORIGIN},
    {"phone", DF_HEADER_PHONE},
    {"phone1", DF_HEADER_PHONE},
    {"phone2", DF_HEADER_PHONE},
    {"phonemobile", DF_HEADER_PHONE},
    {"phoneno", DF_HEADER_PHONE},
    {"phonenumber", DF_HEADER_PHONE},
    {"phones", DF_HEADER_PHONE},
    {"postalcode", DF_HEADER_ZIP_CODE},
    {"postcode", DF_HEADER_ZIP_CODE},
    {"pricerange", DF_HEADER_BUDGET},
    {"primaryphone", DF_HEADER_PHONE},
    {"procedencia", DF_HEADER_ORIGIN},
    {"produtodeinteresse", DF_HEADER_INTEREST},
    {"property", DF_HEADER_PROPERTY},
    {"propertycontext", DF_HEADER_PROPERTY},
    {"propertycontextjson", DF_HEADER_PROPERTY},
    {"propertydetails", DF_HEADER_PROPERTY},
    {"propertyinfo", DF_HEADER_PROPERTY},
    {"propertyjson", DF_HEADER_PROPERTY},
    {"province", DF_HEADER_STATE},
    {"razaosocial", DF_HEADER_COMPANY},
    {"realestate", DF_HEADER_PROPERTY},
    {"remarks", DF_HEADER_NOTES},
    {"seucelular", DF_HEADER_PHONE},
    {"seuemail", DF_HEADER_EMAIL},
    {"seutelefone", DF_HEADER_PHONE},
    {"seuwhatsapp", DF_HEADER_PHONE},
    {"source", DF_HEADER_ORIGIN},
    {"state", DF_HEADER_STATE},
    {"streetaddress", DF_HEADER_ADDRESS},
    {"taxid", DF_HEADER_DOCUMENT},
    {"tel", DF_HEADER_PHONE},
    {"tel1", DF_HEADER_PHONE},
    {"tel2", DF_HEADER_PHONE},
    {"telcel", DF_HEADER_PHONE},
    {"telcelular", DF_HEADER_PHONE},
    {"telcomercial", DF_HEADER_PHONE},
    {"telcontato", DF_HEADER_PHONE},
    {"telefone", DF_HEADER_PHONE},
    {"telefone1", DF_HEADER_PHONE},
    {"telefone2", DF_HEADER_PHONE},
    {"telefonecddd", DF_HEADER_PHONE},
    {"telefonecelular", DF_HEADER_PHONE},
    {"telefonecliente", DF_HEADER_PHONE},
    {"telefonecomddd", DF_HEADER_PHONE},
    {"telefonecomercial", DF_HEADER_PHONE},
    {"telefonecompleto", DF_HEADER_PHONE},
    {"telefonecontato", DF_HEADER_PHONE},
    {"telefoneddd", DF_HEADER_PHONE},
    {"telefonedecontato", DF_HEADER_PHONE},
    {"telefonedocliente", DF_HEADER_PHONE},
    {"telefonedolead", DF_HEADER_PHONE},
    {"telefonedoresponsavel", DF_HEADER_PHONE},
    {"telefonefixo", DF_HEADER_PHONE},
    {"telefonelead", DF_HEADER_PHONE},
    {"telefonemovel", DF_HEADER_PHONE},
    {"telefoneparacontato", DF_HEADER_PHONE},
    {"telefoneprincipal", DF_HEADER_PHONE},
    {"telefoneresidencial", DF_HEADER_PHONE},
    {"telefones", DF_HEADER_PHONE},
    {"telefonewhatsapp", DF_HEADER_PHONE},
    {"telefono", DF_HEADER_PHONE},
    {"telephone", DF_HEADER_PHONE},
    {"telephonenumber", DF_HEADER_PHONE},
    {"telfixo", DF_HEADER_PHONE},
    {"telprincipal", DF_HEADER_PHONE},
    {"telresidencial", DF_HEADER_PHONE},
    {"tipodeinteresse", DF_HEADER_INTEREST},
    {"town", DF_HEADER_CITY},
    {"uf", DF_HEADER_STATE},
    {"unidadefederativa", DF_HEADER_STATE},
    {"userphone", DF_HEADER_PHONE},
    {"utmcampaign", DF_HEADER_CAMPAIGN},
    {"utmsource", DF_HEADER_ORIGIN},
    {"valordeinteresse", DF_HEADER_BUDGET},
    {"whats", DF_HEADER_PHONE},
    {"whatsapp", DF_HEADER_PHONE},
    {"whatsappcelular", DF_HEADER_PHONE},
    {"whatsappcontato", DF_HEADER_PHONE},
    {"whatsappdocliente", DF_HEADER_PHONE},
    {"whatsappnumber", DF_HEADER_PHONE},
    {"whatsapptelefone", DF_HEADER_PHONE},
    {"workphone", DF_HEADER_PHONE},
    {"wpp", DF_HEADER_PHONE},
    {"zap", DF_HEADER_PHONE},
    {"zip", DF_HEADER_ZIP_CODE},
    {"zipcode", DF_HEADER_ZIP_CODE},
};
const size_t df_known_header_count = sizeof(df_known_headers) / sizeof(df_known_headers[0]);

/* U+00C0 to U+017F without their accents; the first letter of a ligature; ' ': not a letter. */
static const char latin[] = "aaaaaaaceeeeiiiidnooooo ouuuuytsaaaaaaaceeeeiiiidnooooo ouuuuyty"
                            "aaaaaaccccccccddddeeeeeeeeeegggggggghhhhiiiiiiiiiiiijjkkklllllll"
                            "lllnnnnnnnnnoooooooorrrrrrssssssssttttttuuuuuuuuuuuuwwyyyzzzzzzs";

/* The ASCII letter or digit for a character, or 0. */
static char fold_char(unsigned c)
{
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'))
        return (char)c;
    if (c >= 'A' && c <= 'Z')
        return (char)(c + 32);
    if (c == 0xBA)
        return 'o'; /* as in Nº */
    if (c == 0xAA)
        return 'a';
    if (c >= 0xC0 && c <= 0x17F && latin[c - 0xC0] != ' ')
        return latin[c - 0xC0];
    return 0;
}

/* Letters of other scripts are kept, since they make a different name. Combining accents (U+0300 to
 * U+036F), spaces and dashes are dropped. */
size_t df_header_fold(struct df_str name, char *out)
{
    const unsigned char *p = (const unsigned char *)name.ptr;
    size_t n = 0;

    for (size_t i = 0, len; i < name.len; i += len) {
        unsigned c = p[i];
        for (len = 1; c >= 0x80 && i + len < name.len && (p[i + len] & 0xC0) == 0x80;)
            len++;
        if (len == 2)
            c = (c & 0x1FU) << 6 | (p[i + 1] & 0x3FU);
        char folded = len <= 2 ? fold_char(c) : 0;
        if (folded) {
            out[n++] = folded;
        } else if (len > 2 ? p[i] != 0xE2 : c > 0x17F && !(c >= 0x300 && c <= 0x36F)) {
            memmove(out + n, p + i, len);
            n += len;
        }
    }
    return n;
}

static int compare_header(const void *key, const void *entry)
{
    const struct df_str *name = key;
    const struct df_known_header *k = entry;
    size_t len = strlen(k->name);
    int order = memcmp(name->ptr, k->name, name->len < len ? name->len : len);
    return order ? order : (name->len > len) - (name->len < len);
}

enum df_header df_header_find(struct df_str name, bool *ret_exact)
{
    char folded[4 * KNOWN_MAX];
    struct df_str key = {folded, 0};

    *ret_exact = false;
    if (name.len > sizeof(folded))
        return DF_HEADER_OTHER;
    key.len = df_header_fold(name, folded);
    const struct df_known_header *k = bsearch(&key, df_known_headers, df_known_header_count,
                                              sizeof(df_known_headers[0]), compare_header);
    if (!k)
        return DF_HEADER_OTHER;
    *ret_exact = df_str_ieq(key, df_str_c(names[k->header]));
    return k->header;
}

const char *df_header_name(enum df_header h)
{
    assert(h < DF_HEADER_COUNT);
    return names[h];
}
